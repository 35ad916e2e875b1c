"""The module behind the notebooks: differential privacy, the papers' algorithms, and the ledger of their claims.

One topic a file, imported one by one (``from dplib import gmm``), so that a page loads only what it uses.
"""
