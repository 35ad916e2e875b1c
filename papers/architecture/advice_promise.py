"""Rules 5 and 6 of :mod:`papers.architecture.advice_runs`, on plain numbers, lists and dicts.

The form of "Choose a model" runs these very functions in the browser (:mod:`book.press.to_script`).
"""

import math


def strength(n, columns, classes, sigma):
    """Rule 5: rows over the noise of one release, sigma, in all columns and classes."""
    return n / (classes * sigma * math.sqrt(columns))


def promised(kept, problem_strength, numbers):
    """Rule 6: the share that all but one of so many tables should keep.

    Args:
        kept: what each table kept at each budget: {"table", "strength", "share"}.
        numbers: "reach", "fewest", "least", "agreed", "of": the constants of :mod:`papers.architecture.advice_rows`.

    Returns:
        "share", None for none; "count", of tables; "reason", why there is none.
    """
    near = {}
    for table in sorted(kept, key=lambda table: table["strength"]):
        if problem_strength / numbers["reach"] <= table["strength"] <= problem_strength * (1 + 1e-9):
            near[table["table"]] = table["share"]  # the strongest stays
    shares = sorted(near.values())
    count = len(shares)
    if count < numbers["fewest"]:
        return {"share": None, "count": count, "reason": "unmeasured"}
    share = min(1, shares[max(1, (count + 1) // numbers["of"]) - 1])
    if share < numbers["least"]:
        return {"share": None, "count": count, "reason": "nothing"}
    middle = (shares[(count - 1) // 2] + shares[count // 2]) / 2
    if share < numbers["agreed"] * middle:
        return {"share": None, "count": count, "reason": "disagree"}
    return {"share": share, "count": count, "reason": ""}
