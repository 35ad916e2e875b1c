"""The rule of "Choose a model", on plain numbers, lists and dicts: one source for Python and for the form on the site.

:mod:`book.press.choice` calls these functions, and the form runs them in the browser, as
:mod:`book.press.to_script` translates them: hence no classes here, and nothing that this translation does not know.

``data``: results, words and numbers, as :func:`book.press.choice.data` puts them together. ``asked``: the fields of a
:class:`book.press.choice.Problem` and what :func:`derived` adds; with "sum", the noise of a curator's sum at its
budget, and "record_sum", that at the budget for one record. ``one``: of ``data["results"]``. ``found``: an answer.
"""

import math

from book.press.to_script import fill
from papers.architecture.advice_promise import promised, strength


def default_delta(n):
    """The largest power of ten below 1/n, and at most 1e-5, at which the book measured."""
    return min(1e-5, float(f"1e-{len(str(n))}"))


def derived(asked):
    """A problem with the accuracy (%) of a constant, and epsilon for one record: half of it for a replaced label."""
    half = asked["epsilon"] / 2 if asked["private"] == "labels" else asked["epsilon"]
    return {**asked, "constant": asked["frequent_class"] or 100 / asked["classes"], "record_epsilon": half}


def refused(data, asked):
    """The field of a problem that cannot be, and the reason; None where all is well."""
    least = 100 / asked["classes"]
    if asked["private"] == "labels" and asked["epsilon"] < data["least_labels"]:
        return [
            "epsilon",
            f"for private labels it must be at least {data['least_labels']:g}, of which DP-SGD gets half",
        ]
    if asked["delta"] > 1 / asked["n"]:
        published = "a mechanism that publishes a whole record now and then would count as private"
        return ["delta", f"it must be at most 1/n = {1 / asked['n']:.3g}, for else {published}"]
    if 0 < asked["frequent_class"] < least:
        share = f"of {asked['classes']} classes the most frequent one has at least {least:.3g}% (0: unknown)"
        return ["frequent_class", share]
    if 0 < asked["ordinary"] <= asked["constant"]:
        return ["ordinary", f"it must be above the {asked['constant']:.3g}% of a constant prediction (0: unknown)"]
    return None


def protects(data, result, asked):
    """Whether a method protects what is asked for, with the delta asked for, from whoever may not see it."""
    if result["private"] == "labels" and result["sigma"] is None:  # each label is randomised by itself
        return asked["private"] == "labels"
    if asked["who"] == "nobody":
        return False
    if result["private"] == "labels":
        return asked["private"] == "labels" and asked["delta"] > 0
    return (result["method"] in data["pure"]) == (asked["delta"] == 0)


def has_program(data, result, asked):
    """Whether a method has a program for such records: that of a network may be for one size of image only."""
    only = data["methods"][result["method"]].get("only", {})
    return result["method"] not in data["listed"] and all(asked[name] == value for name, value in only.items())


def affordable(data, result, asked):
    """Whether a result's budget is at most the problem's: n times epsilon; of noise on labels epsilon, for about n.

    One record hides among n: chapter 3 finds that the epsilon needed for one accuracy falls about as 1/n. Of a
    curator's sum the noise is known, and its share of a mean must not be larger than measured.
    """
    if result["sigma"] is not None:
        return asked["sum"] / asked["n"] <= result["sigma"] / result["n"] * (1 + 1e-9)
    if result["private"] == "labels":
        return result["epsilon"] <= asked["epsilon"] * (1 + 1e-9) and result["n"] <= data["as_many"] * asked["n"]
    epsilon = asked["epsilon"] if result["method"] in data["pure"] else asked["record_epsilon"]
    return result["n"] * result["epsilon"] <= asked["n"] * epsilon * (1 + 1e-9)


def distance(asked, other):
    """Euclidean distance in decades: log10 of the ratios of n, d and classes, all weighing the same."""
    return math.hypot(*[math.log10(asked[name] / other[name]) for name in ["n", "d", "classes"]])


def choose(data, asked):
    """The best method on the nearest data set, and the worst share that it kept near the problem."""
    alike = [result for result in data["results"] if result["kind"] == asked["kind"] and result["share"] is not None]
    alike = [result for result in alike if protects(data, result, asked)]  # and there was something to learn
    printed = [result for result in alike if has_program(data, result, asked)]
    if not printed:
        return unmeasured()
    if asked["kind"] == "table":
        return of_table(data, asked, alike, printed)
    cheap = [result for result in printed if affordable(data, result, asked)]
    name = min(cheap or printed, key=lambda result: distance(asked, result))["name"]
    here = [result for result in alike if result["name"] == name and affordable(data, result, asked)]
    # Of each method its largest budget, the most accurate first.
    within = sorted(last(here, "method"), key=lambda result: -result["accuracy"])
    best = [result for result in within if has_program(data, result, asked)]
    rest = [result for result in printed if result["name"] == name]
    nearest = best[0] if best else min(rest, key=lambda result: [result["epsilon"], -result["accuracy"]])
    far = distance(asked, nearest)
    near = [
        result for result in alike if result["method"] == nearest["method"] and distance(asked, result) <= data["reach"]
    ]
    near = [result for result in near if best and far <= data["reach"] and affordable(data, result, asked)]
    rivals = last(near, "name")
    worst = min(rivals, key=lambda result: result["share"], default=None)
    share = worst["share"] if worst is not None and worst["share"] >= data["least"] else None
    reason = "far" if far > data["reach"] else "least" if best else "tight"
    return {
        "nearest": nearest,
        "method": nearest["method"],
        "far": far,
        "affordable": len(best) > 0,
        "share": share,
        "worst": "" if worst is None else worst["name"],
        "count": len(rivals),
        "reason": reason if share is None else "",
        "others": [result for result in within if result["at"] != nearest["at"]],
    }


def unmeasured():
    """The answer where nothing on such data has a program."""
    return {
        "nearest": None, "method": "none", "far": None, "affordable": False, "share": None, "worst": "", "count": 0,
        "reason": "unmeasured", "others": [],
    }  # fmt: skip


def of_table(data, asked, alike, printed):
    """The one method for tables; the measurement of the nearest strength, no stronger if there is one; the promise."""
    here = strength(asked["n"], asked["d"], asked["classes"], asked["record_sum"])
    within = [result for result in printed if result["more"]["strength"] <= here * (1 + 1e-9)]
    nearest = min(within or printed, key=lambda result: abs(math.log10(result["more"]["strength"] / here)))
    mine = [result for result in alike if result["method"] == nearest["method"]]
    kept = [
        {"table": result["name"], "strength": result["more"]["strength"], "share": result["kept"]} for result in mine
    ]
    said = promised(kept, here, data["tables"])
    return {
        **unmeasured(),
        "nearest": nearest,
        "method": nearest["method"],
        "far": abs(math.log10(nearest["more"]["strength"] / here)),
        "affordable": len(within) > 0,
        "share": said["share"],
        "count": said["count"],
        "reason": said["reason"],
    }


def last(results, key):
    """Of each method, or on each data set, the result at the largest budget."""
    largest = {}
    for result in sorted(results, key=lambda result: result["epsilon"]):
        largest[result[key]] = result
    return [*largest.values()]


def tuned(data, result):
    """The result whose learning rate is taken: where a budget left nothing, that of the least that left something."""
    keys = ["name", "n", "d", "method"]
    same = [other for other in data["results"] if all(other[key] == result[key] for key in keys)]
    left = [other for other in same if other["epsilon"] >= result["epsilon"] and (other["share"] or 0) >= data["least"]]
    return min(left, key=lambda other: other["epsilon"], default=result)


def settings(data, asked, result, noise):
    """Of a result by DP-SGD its settings, with a noise multiplier for the problem's own budget; else None."""
    if result["steps"] is None:
        return None
    rate = tuned(data, result)
    return {
        "rate": result["rate"],
        "batch": max(1, round(result["rate"] * asked["n"])),
        "steps": result["steps"],
        "learning_rate": rate["learning_rate"],
        "tuned_at": rate["epsilon"],
        "noise": noise,
        "clip": result["more"].get("clip", 1),
    }


def lines(data, asked, answer, s):
    """The answer as [heading, text], caveats last. ``s``: :func:`settings`, or None."""
    says = data["says"]
    method = data["methods"][answer["method"]]
    told = [["Advice", method["says"]]]
    if s is not None:
        told.append(["Clipping norm", f"{s['clip']:g}"])
        name = answer["nearest"]["name"]
        told.append(["Learning rate", f"{s['learning_rate']:g}, tuned on {name} at ε = {s['tuned_at']:g}"])
        told.append(["Batch", f"{s['batch']:,} records on average, each drawn with probability {s['rate']:.5f}"])
        told.append(["Noise multiplier", f"{s['noise']:.3f} (Rényi DP; one record added or removed)"])
        told.append(["Steps", f"{s['steps']}"])
    elif "settings" in method:
        told.append(["Settings", method["settings"]])
    if asked["private"] == "labels" and answer["nearest"] is not None and answer["nearest"]["private"] == "records":
        told.append(["Budget", says["half"]])
    alike = "" if asked["frequent_class"] else says["alike"]
    told.append(["A constant prediction", f"{asked['constant']:.1f}%{alike}"])
    told.append(["Nearest measurement", nearest(data, answer)])
    told.append(["Promise", promise(data, asked, answer)])
    others = [["Also measured there", result["says"]] for result in answer["others"]]
    reasons = [["Why", text] for text in why(data, asked, answer)]
    return [*told, *reasons, *others, *[["Caveat", text] for text in caveats(data, asked, answer)]]


def nearest(data, answer):
    """The nearest measurement and how far its data set is."""
    if answer["nearest"] is None:
        return data["says"]["nothing"]
    return f"{answer['nearest']['says']}; a factor of {10 ** answer['far']:.2f} away"


def promise(data, asked, answer):
    """What is promised, or that nothing is, and why."""
    says = data["says"]
    if answer["share"] is None:
        return fill(says["none"][answer["reason"]], {"worst": answer["worst"], "count": answer["count"]})
    reached = accuracy(asked, answer)
    gaps = {
        "share": math.floor(100 * answer["share"]),
        "least": "" if reached is None else f", which is {reached:.1f}%",
        "worst": answer["worst"],
        "count": answer["count"],
    }
    return fill(says["of_tables" if asked["kind"] == "table" else "share"], gaps)


def accuracy(asked, answer):
    """The least accuracy (%) that is promised, where that of ordinary training is known; else None."""
    if answer["share"] is None or not asked["ordinary"]:
        return None
    return asked["constant"] + answer["share"] * (asked["ordinary"] - asked["constant"])


def why(data, asked, answer):
    """Where nobody measured what is asked, three lines on why; else none."""
    if answer["nearest"] is not None:
        return []
    if asked["who"] == "nobody":
        return data["says"]["why"]["nobody" if asked["private"] == "records" else asked["kind"]]
    return data["says"]["why"]["pure" if asked["delta"] == 0 else asked["kind"]]


def caveats(data, asked, answer):
    """What goes with a method, and with a budget that promises little."""
    says = data["says"]
    told = [*data["methods"][answer["method"]].get("caveats", [])]
    if answer["nearest"] is not None and not asked["public_n"]:
        told.append(says["counted" if asked["kind"] == "table" and asked["delta"] > 0 else "secret_n"])
    if answer["nearest"] is not None and asked["public_data"]:
        told.append(says["public_data"])
    exposed = -math.expm1(asked["n"] * math.log1p(-asked["delta"]))
    if exposed > 0.1:
        told.append(fill(says["exposed"], {"percent": f"{100 * exposed:.0f}"}))
    if asked["epsilon"] > 10:
        told.append(says["large"])
    return told


def programs(data, asked, answer, s):
    """Programs for the answer, [library, text]: ten lines or so from arrays to a test accuracy."""
    epsilon = f"{asked['epsilon']:g}"
    delta = f"{asked['delta']:g}"
    labels = asked["private"] == "labels"
    pure = f"epsilon={epsilon} / 2" if labels else f"epsilon={epsilon}"
    below = f"{delta} / (1 + np.exp({epsilon} / 2))" if labels else delta
    gaps = {
        "classes": asked["classes"],
        "epsilon": epsilon,
        "delta": delta,
        "pure": pure,
        "budget": f"{pure}, delta={below}",
        "counted": "" if asked["public_n"] else ", public_n=False",
    }
    measured = answer["nearest"]
    if measured is not None:
        for name, value in measured["more"].items():
            gaps[name] = f"{value:g}"
        gaps["learning_rate"] = f"{(measured if s is None else s)['learning_rate'] or 0:g}"
    if s is not None:
        gaps["rate"] = f"{s['rate']:.5f}"
        gaps["batch"] = s["batch"]
        gaps["steps"] = s["steps"]
        gaps["clip"] = f"{s['clip']:g}"
        gaps["noise"] = f"{s['noise']:.3f}"
    # Opacus has no noisy count of the records.
    hidden = ["Opacus"] if answer["method"] == "rows" and not asked["public_n"] else []
    code = data["methods"][answer["method"]].get("code", {})
    return [[library, fill(text, gaps).strip()] for library, text in code.items() if library not in hidden]
