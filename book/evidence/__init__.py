"""What keeps runs and judges claims: experiments, plans and stored runs; the ledger's rows, rules and verdicts."""
