# The engine of `python -m book sweep`: a job a run of the grid in grid.json, in the folder that Snakemake works in. What a
# run is called with stands in that file and nowhere else, so that no value meets a shell. A run that fails has its
# result too, which says why: it stops no other one.
import json
import sys
from pathlib import Path

RUNS = list(json.loads(Path("grid.json").read_text(encoding="utf-8"))["runs"])


rule all:
    input:
        expand("runs/{key}.json", key=RUNS),


rule run:
    output:
        "runs/{key}.json",
    shell:
        "OMP_NUM_THREADS={threads} {sys.executable:q} -m book.evidence.sweep_run {wildcards.key}"
