"""Grids of notebooks on Snakemake, and what they leave to look at."""
