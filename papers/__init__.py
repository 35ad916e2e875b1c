"""The four papers' experiments: a folder a paper, one across them, and what several of them use.

``X_runs.py`` has the experiments and the parts of plans, ``X_rows.py`` leads from their runs to values, tables and rows
of the ledger. What somebody would use on data of their own is in ``dplib``.
"""
