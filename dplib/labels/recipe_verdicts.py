"""What changes of the recipe of Appendix B say of paper C: mixup, the start of stage 2, and what it is trained on."""

from dplib.architecture.cost_verdicts import holm_signs
from dplib.labels import maps as label_maps
from dplib.labels.map_groups import (
    Maps,
    Record,
    difference,
    effects,
    group,
    known,
    opposite,
    turned,
    verdict_of,
    wrong_and_kept,
)
from dplib.stats import paired


def records(maps: Maps) -> dict[str, Record]:
    """One for each claim, by its id."""
    return {
        "C.s-mixup": some_mixup(maps),
        **mixup(maps),
        "C.s-stage2-warm-start": warm_start(maps),
        "C.s-stage1-reuse-and-filter": reuse_and_filter(maps),
    }


def mixup(maps: Maps) -> dict[str, Record]:
    """Coefficients of 4 to 8 against all others, and less of it in stage 2 against more."""
    rows = maps.mixed
    one, two = rows["mixup_1"], rows["mixup_2"]
    good = one.between(4, 8) & two.between(4, 8)
    pairs = {
        "C.s-mixup-alpha": ("mixup_4_to_8_minus_others", good, ~good),
        "C.fig4b": ("less_in_stage_2_minus_more", two < one, two > one),
    }
    words = {
        "C.s-mixup-alpha": "Cells with both coefficients from 4 to 8 less all others",
        "C.fig4b": "Cells with a smaller coefficient in stage 2 than in stage 1, less those with a larger one",
    }
    table = label_maps.mean_map(rows, "final", "mixup_1", "mixup_2")
    found = {}
    for claim, (name, these, those) in pairs.items():
        gain = difference(group(rows, these), group(rows, those))
        sign = maps.sign(gain)
        values = {"epsilon": maps.epsilon, **known({name: gain})}
        data = {f"{a:g}": row.tolist() for a, row in table.iterrows()} if claim == "C.fig4b" else None
        because = f"{words[claim]}, in points, paired by seed. {opposite([sign])}{maps.about}"
        found[claim] = Record(values, verdict_of(sign), because, data)
    return found


def some_mixup(maps: Maps) -> Record:
    """The claim names no coefficient: every cell with mixup against none, by Holm over the cells."""
    rows = maps.mixed
    none = group(rows, (rows["mixup_1"] == 0) & (rows["mixup_2"] == 0))
    tried = {
        (a, b): paired(group(rows, (rows["mixup_1"] == a) & (rows["mixup_2"] == b)), none)
        for a, b in sorted(set(zip(rows["mixup_1"], rows["mixup_2"], strict=True)) - {(0.0, 0.0)})
    }
    signs = holm_signs(tried.values())
    best = max(tried, key=lambda cell: tried[cell].difference.value)
    strong = rows["mixup_1"].between(4, 8) & rows["mixup_2"].between(4, 8)
    values = {
        "epsilon": maps.epsilon,
        "best_coefficients": f"{best[0]:g} in stage 1, {best[1]:g} in stage 2",
        "best_minus_none": tried[best].difference,
        **known({"mixup_4_to_8_minus_none": difference(group(rows, strong), none)}),
    }
    return Record(
        values,
        verdict_of(1) if maps.real and 1 in signs else "undecided",
        f"Every pair of coefficients less no mixup, in points, paired by seed; by Holm over all {len(tried)} pairs "
        f"{signs.count(1)} are better beyond chance and {signs.count(-1)} worse. The interval of the best one is not "
        f"corrected. {maps.tuning}{maps.about}",
    )


def warm_start(maps: Maps) -> Record:
    """Stage 2 from the model of stage 1 less stage 2 from fresh weights."""
    gain = turned(effects(maps)["stage 2 starts afresh"].difference)
    sign = maps.sign(gain)
    return Record(
        {"warm_minus_fresh": gain},
        verdict_of(sign),
        "Stage 2 from the model of stage 1 less stage 2 from fresh weights, in points, all else equal. A warm start is "
        f"also more steps of training. {opposite([sign])}{maps.about}",
    )


def reuse_and_filter(maps: Maps) -> Record:
    """Labels of both stages, filtered, less stage 2's alone, and less both unfiltered."""
    all_effects = effects(maps)
    reuse, filtering = (turned(all_effects[f"stage-1 labels not {what}"].difference) for what in ("reused", "filtered"))
    signs = [maps.sign(reuse), maps.sign(filtering)]
    words = {1: "better", 0: "not decided", -1: "worse"}
    before, after, kept = wrong_and_kept(maps)
    return Record(
        {
            "both_filtered_minus_stage_2_only": reuse,
            "both_filtered_minus_both": filtering,
            "wrong_before_filter_percent": before,
            "wrong_after_filter_percent": after,
            "kept_percent": kept,
        },
        verdict_of(*signs),
        f"In points, paired by seed: with reuse {words[signs[0]]}, with the filter {words[signs[1]]}. The filter keeps "
        f"{kept}% of stage 1's answers; {before}% of them are wrong before it, {after}% after. "
        f"{opposite(signs)}{maps.about}",
    )
