"""Differential privacy, and the papers' algorithms, measured: the library behind the notebooks.

One topic a file, imported one by one (``from dplib import accounting``), so that a page loads only what it uses. Behind
the doors: :mod:`dplib.data`, data sets, where from and checked how; :mod:`papers.larger_models` (paper A: private
mixture, distance, DFS), :mod:`papers.architecture` (paper B: cost, crossover, features, searches),
:mod:`papers.labels` (paper C: stages, priors, theory, heads), :mod:`papers.screening` (paper D: annealing, and what it
leaks), :mod:`papers.sizes` (chapter 14, across the papers). The rooms use the library and the data; no room uses
another's, and the library uses none of them. What makes the site is ``press`` (in ``book/press``), grids of runs are
``sweeps``.
"""
