# The engine: executes each chapter that changed (by content, not by time) and renders the site.
#   python -m book.evidence.alone --cores 2            everything that `make book` makes
#   python -m book.evidence.alone --cores 2 executed   the notebooks only
# That is Snakemake with a lock that ends with it.
#
# What a chapter depends on is one text here, a digest of its files from before anything runs. Were they inputs,
# Snakemake would note their checksums when a job has ended, and somebody may have written to them by then.
import hashlib

from book.evidence import sources

CHAPTERS = sources.chapters()
INPUTS = sources.all_inputs()


rule site:
    input:
        # The notebooks as well: Snakemake does not miss the input of a file that is there and newer than all else.
        "_build/html/index.html",
        expand("executed/{chapter}.ipynb", chapter=CHAPTERS),


rule render:
    input:
        expand("executed/{chapter}.ipynb", chapter=CHAPTERS),
    output:
        "_build/html/index.html",
    params:
        pages=sources.fingerprint(sources.site_files()),
        # Times alone do not tell where a clock was set back between a chapter and the site.
        chapters=hashlib.sha256(repr(sorted(INPUTS.items())).encode()).hexdigest(),
    threads: workflow.cores or 1
    shell:
        # Snakemake removes the output of a rule before it runs; the rest of the site stays and is brought up to date.
        "python -m book site --cores {threads}"


rule executed:
    input:
        expand("executed/{chapter}.ipynb", chapter=CHAPTERS),


rule chapter:
    output:
        "executed/{chapter}.ipynb",
    params:
        inputs=lambda wildcards: INPUTS[wildcards.chapter],
    threads: 1
    shell:
        # One thread a notebook: two notebooks side by side are faster than two threads in one.
        "OMP_NUM_THREADS=1 python -m book run {wildcards.chapter} --output {output} --inputs {params.inputs}"
