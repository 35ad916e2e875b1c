"""What makes the site from pages, executed chapters and the ledger. It uses dplib; dplib does not use it."""
