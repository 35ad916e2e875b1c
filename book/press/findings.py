"""What the page of findings says of the ledger in words; :mod:`book.press.findings_figures` draws its figures."""

from collections import Counter

from book.evidence import claims, history, rules
from book.press import ledger
from book.press.ledger import Row

WORDS = {
    rules.HOLDS: "hold",
    rules.CORRECTED: "hold with a change",
    rules.FAILS: "fail",
    rules.UNSTATED: "are not reproducible as stated",
    rules.UNDECIDED: "are undecided",
}
LEFT = {rules.NOT_TESTED: "cannot be tested by us", claims.NOT_RUN: "are not run yet"}


def markdown(rows: list[Row]) -> str:
    """The caption and the counts of what was tested, in words."""
    known = [row for row in rows if row.claim.sort == "claim"]
    counts = Counter(row.verdict for row in known)
    tested = [row for row in known if row.verdict not in (rules.NOT_TESTED, claims.NOT_RUN)]
    parts = [f"{counts[verdict]} {words}" for verdict, words in WORDS.items() if counts[verdict]]
    left = [f"{counts[verdict]} {words}" for verdict, words in LEFT.items() if counts[verdict]]
    orders = Counter(row.past.order for row in tested)
    differs = Counter((ledger.first(row), row.verdict) for row in tested if ledger.first(row) != row.verdict)
    lost = sum(n for (before, _), n in differs.items() if before == ledger.OPEN)
    failed = sum(n for (before, _), n in differs.items() if before == rules.FAILS)
    return (
        f"Of {len(known)} claims {len(tested)} were tested: {', '.join(parts)}. {' and '.join(left).capitalize()}. The "
        f"ledger's other {len(rows) - len(known)} rows are not counted here: printed numbers, settings, results of "
        "other people and questions of our own.\n\n"
        f"How far to trust these words? {orders[history.FIRST]} of the {len(tested)} claims are decided by a rule "
        f"that was committed before every run that it reads, {orders[history.KNOWN]} by one that was set or changed "
        "with all its runs known; the others lie between, cannot be told from the log, or rest on proofs. By their "
        f"first rule {sum(differs.values()) - lost} claims would have another verdict today, {failed} of them *fails* "
        f"in place of a milder one; {lost} first rules cannot be evaluated any more. [The ledger](ledger.md) can be "
        "read by the first rules.\n"
    )
