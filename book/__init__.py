"""The book: what keeps its runs and judges them (``evidence``), what makes its site (``press``), its command line.

Beside the modules lie the pages, the ledger's rows and rules (``claims/``) and every kept run (``runs/``).
"""
