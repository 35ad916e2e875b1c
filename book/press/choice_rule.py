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


def protects(data, one, asked):
    """Whether a method protects what is asked for, with the delta asked for, from whoever may not see it."""
    if one["private"] == "labels" and one["sigma"] is None:  # each label is randomised by itself
        return asked["private"] == "labels"
    if asked["who"] == "nobody":
        return False
    if one["private"] == "labels":
        return asked["private"] == "labels" and asked["delta"] > 0
    return (one["method"] in data["pure"]) == (asked["delta"] == 0)


def has_program(data, one, asked):
    """Whether a method has a program for such records: that of a network may be for one size of image only."""
    only = data["methods"][one["method"]].get("only", {})
    return one["method"] not in data["listed"] and all(asked[name] == value for name, value in only.items())


def affordable(data, one, asked):
    """Whether a result's budget is at most the problem's: n times epsilon; of noise on labels epsilon, for about n.

    One record hides among n: chapter 3 finds that the epsilon needed for one accuracy falls about as 1/n. Of a
    curator's sum the noise is known, and its share of a mean must not be larger than measured.
    """
    if one["sigma"] is not None:
        return asked["sum"] / asked["n"] <= one["sigma"] / one["n"] * (1 + 1e-9)
    if one["private"] == "labels":
        return one["epsilon"] <= asked["epsilon"] * (1 + 1e-9) and one["n"] <= data["as_many"] * asked["n"]
    epsilon = asked["epsilon"] if one["method"] in data["pure"] else asked["record_epsilon"]
    return one["n"] * one["epsilon"] <= asked["n"] * epsilon * (1 + 1e-9)


def distance(asked, one):
    """Euclidean distance in decades: log10 of the ratios of n, d and classes, all weighing the same."""
    return math.hypot(*[math.log10(asked[name] / one[name]) for name in ["n", "d", "classes"]])


def choose(data, asked):
    """The best method on the nearest data set, and the worst share that it kept near the problem."""
    alike = [one for one in data["results"] if one["kind"] == asked["kind"] and one["share"] is not None]
    alike = [one for one in alike if protects(data, one, asked)]  # and there was something to learn
    printed = [one for one in alike if has_program(data, one, asked)]
    if not printed:
        return unmeasured()
    if asked["kind"] == "table":
        return of_table(data, asked, alike, printed)
    cheap = [one for one in printed if affordable(data, one, asked)]
    name = min(cheap or printed, key=lambda one: distance(asked, one))["name"]
    here = [one for one in alike if one["name"] == name and affordable(data, one, asked)]
    # Of each method its largest budget, the most accurate first.
    within = sorted(last(here, "method"), key=lambda one: -one["accuracy"])
    best = [one for one in within if has_program(data, one, asked)]
    rest = [one for one in printed if one["name"] == name]
    nearest = best[0] if best else min(rest, key=lambda one: [one["epsilon"], -one["accuracy"]])
    far = distance(asked, nearest)
    near = [one for one in alike if one["method"] == nearest["method"] and distance(asked, one) <= data["reach"]]
    near = [one for one in near if best and far <= data["reach"] and affordable(data, one, asked)]
    rivals = last(near, "name")
    worst = min(rivals, key=lambda one: one["share"], default=None)
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
        "others": [one for one in within if one["at"] != nearest["at"]],
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
    within = [one for one in printed if one["more"]["strength"] <= here * (1 + 1e-9)]
    nearest = min(within or printed, key=lambda one: abs(math.log10(one["more"]["strength"] / here)))
    mine = [one for one in alike if one["method"] == nearest["method"]]
    kept = [{"table": one["name"], "strength": one["more"]["strength"], "share": one["kept"]} for one in mine]
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
    found = {}
    for one in sorted(results, key=lambda one: one["epsilon"]):
        found[one[key]] = one
    return [*found.values()]


def tuned(data, one):
    """The result whose learning rate is taken: where a budget left nothing, that of the least that left something."""
    keys = ["name", "n", "d", "method"]
    same = [other for other in data["results"] if all(other[key] == one[key] for key in keys)]
    left = [other for other in same if other["epsilon"] >= one["epsilon"] and (other["share"] or 0) >= data["least"]]
    return min(left, key=lambda other: other["epsilon"], default=one)


def settings(data, asked, one, noise):
    """Of a result by DP-SGD its settings, with a noise multiplier for the problem's own budget; else None."""
    if one["steps"] is None:
        return None
    rate = tuned(data, one)
    return {
        "rate": one["rate"],
        "batch": max(1, round(one["rate"] * asked["n"])),
        "steps": one["steps"],
        "learning_rate": rate["learning_rate"],
        "tuned_at": rate["epsilon"],
        "noise": noise,
        "clip": one["more"].get("clip", 1),
    }


def lines(data, asked, found, s):
    """The answer as [heading, text], caveats last. ``s``: :func:`settings`, or None."""
    says = data["says"]
    method = data["methods"][found["method"]]
    told = [["Advice", method["says"]]]
    if s is not None:
        told.append(["Clipping norm", f"{s['clip']:g}"])
        name = found["nearest"]["name"]
        told.append(["Learning rate", f"{s['learning_rate']:g}, tuned on {name} at ε = {s['tuned_at']:g}"])
        told.append(["Batch", f"{s['batch']:,} records on average, each drawn with probability {s['rate']:.5f}"])
        told.append(["Noise multiplier", f"{s['noise']:.3f} (Rényi DP; one record added or removed)"])
        told.append(["Steps", f"{s['steps']}"])
    elif "settings" in method:
        told.append(["Settings", method["settings"]])
    if asked["private"] == "labels" and found["nearest"] is not None and found["nearest"]["private"] == "records":
        told.append(["Budget", says["half"]])
    alike = "" if asked["frequent_class"] else says["alike"]
    told.append(["A constant prediction", f"{asked['constant']:.1f}%{alike}"])
    told.append(["Nearest measurement", nearest(data, found)])
    told.append(["Promise", promise(data, asked, found)])
    others = [["Also measured there", one["says"]] for one in found["others"]]
    reasons = [["Why", text] for text in why(data, asked, found)]
    return [*told, *reasons, *others, *[["Caveat", text] for text in caveats(data, asked, found)]]


def nearest(data, found):
    """The nearest measurement and how far its data set is."""
    if found["nearest"] is None:
        return data["says"]["nothing"]
    return f"{found['nearest']['says']}; {found['far']:.2f} decades away"


def promise(data, asked, found):
    """What is promised, or that nothing is, and why."""
    says = data["says"]
    if found["share"] is None:
        return fill(says["none"][found["reason"]], {"worst": found["worst"], "count": found["count"]})
    reached = accuracy(asked, found)
    gaps = {
        "share": math.floor(100 * found["share"]),
        "least": "" if reached is None else f", which is {reached:.1f}%",
        "worst": found["worst"],
        "count": found["count"],
    }
    return fill(says["of_tables" if asked["kind"] == "table" else "share"], gaps)


def accuracy(asked, found):
    """The least accuracy (%) that is promised, where that of ordinary training is known; else None."""
    if found["share"] is None or not asked["ordinary"]:
        return None
    return asked["constant"] + found["share"] * (asked["ordinary"] - asked["constant"])


def why(data, asked, found):
    """Where nobody measured what is asked, three lines on why; else none."""
    if found["nearest"] is not None:
        return []
    pure = "pure" if asked["delta"] == 0 else asked["kind"]
    return data["says"]["why"]["nobody" if asked["who"] == "nobody" else pure]


def caveats(data, asked, found):
    """What goes with a method, and with a budget that promises little."""
    says = data["says"]
    told = [*data["methods"][found["method"]].get("caveats", [])]
    if found["nearest"] is not None and not asked["public_n"]:
        told.append(says["counted" if asked["kind"] == "table" and asked["delta"] > 0 else "secret_n"])
    if found["nearest"] is not None and asked["public_data"]:
        told.append(says["public_data"])
    exposed = -math.expm1(asked["n"] * math.log1p(-asked["delta"]))
    if exposed > 0.1:
        told.append(fill(says["exposed"], {"percent": f"{100 * exposed:.0f}"}))
    if asked["epsilon"] > 10:
        told.append(says["large"])
    return told


def programs(data, asked, found, s):
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
    one = found["nearest"]
    if one is not None:
        for name, value in one["more"].items():
            gaps[name] = f"{value:g}"
        gaps["learning_rate"] = f"{(one if s is None else s)['learning_rate'] or 0:g}"
    if s is not None:
        gaps["rate"] = f"{s['rate']:.5f}"
        gaps["batch"] = s["batch"]
        gaps["steps"] = s["steps"]
        gaps["clip"] = f"{s['clip']:g}"
        gaps["noise"] = f"{s['noise']:.3f}"
    # Opacus has no noisy count of the records.
    hidden = ["Opacus"] if found["method"] == "rows" and not asked["public_n"] else []
    code = data["methods"][found["method"]].get("code", {})
    return [[library, fill(text, gaps).strip()] for library, text in code.items() if library not in hidden]
