# The engine: executes each chapter that changed (by content, not by time) and renders the site.
#   python -m book.evidence.alone --cores 2            everything that `make book` makes
#   python -m book.evidence.alone --cores 2 executed   the notebooks only
# That is Snakemake with a lock that ends with it.
from book.evidence import sources

CHAPTERS = sources.chapters()
PAGES = [str(path) for path in sources.module_files("book.press.pages")]


rule site:
    input:
        # The notebooks as well: Snakemake does not miss the input of a file that is there and newer than all else.
        "_build/html/index.html",
        expand("executed/{chapter}.ipynb", chapter=CHAPTERS),


rule render:
    input:
        expand("executed/{chapter}.ipynb", chapter=CHAPTERS),
        PAGES,
        book=sources.page_files(),
    output:
        "_build/html/index.html",
    shell:
        # Snakemake removes the output of a rule before it runs; the rest of the site stays and is brought up to date.
        "python -m book site"


rule executed:
    input:
        expand("executed/{chapter}.ipynb", chapter=CHAPTERS),


rule chapter:
    input:
        lambda wildcards: [str(path) for path in sources.depends_on(wildcards.chapter)],
    output:
        "executed/{chapter}.ipynb",
    threads: 1
    shell:
        # One thread a notebook: two notebooks side by side are faster than two threads in one.
        "OMP_NUM_THREADS=1 python -m book run {wildcards.chapter} --output {output}"
