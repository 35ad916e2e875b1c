"""What maps over the settings of LP-2ST say of paper C, Appendix E: values, verdict and reason for each claim.

How differences are judged: :mod:`dplib.labels.map_groups`. The recipe of Appendix B:
:mod:`dplib.labels.recipe_verdicts`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dplib.labels import maps as label_maps
from dplib.labels import recipe_verdicts as recipe
from dplib.labels.cifar_study import ABLATIONS
from dplib.labels.map_groups import (
    Maps,
    Record,
    complete,
    difference,
    effects,
    group,
    known,
    less,
    opposite,
    verdict_of,
)
from dplib.labels.stages import tempered
from dplib.stats import Measured


def records(maps: Maps) -> dict[str, Record]:
    """One for each claim, by its id."""
    return {
        "C.s-split-above-half": split(maps),
        "C.s-prior-temperature": temperature(maps),
        "C.fig4a": figure_4a(maps),
        "C.s-perfect-topk-not-desirable": top_k(maps),
        "C.fig5": figure_5(maps),
        "C.s-robust-settings": robust(maps),
        **recipe.records(maps),
    }


def split(maps: Maps) -> Record:
    """Shares slightly above one half, read as above 50 and up to 70%, against smaller and against larger ones."""
    rows = maps.shared[maps.shared["temperature"] == maps.temperature]
    groups = {
        "up_to_50": group(rows, rows["share"] <= 50),
        "50_to_70": group(rows, (rows["share"] > 50) & (rows["share"] <= 70)),
        "above_70": group(rows, rows["share"] > 70),
    }
    best = groups.pop("50_to_70")
    gains = {f"50_to_70_minus_{name}": difference(best, other) for name, other in groups.items()}
    signs = [maps.sign(gain) for gain in gains.values()]
    by_share = rows.groupby("share")["final"].mean()
    values = {"stage1_share_above": float(by_share.idxmax()), **known(gains)}
    means = ", ".join(f"{value:.2f} at {share:g}%" for share, value in by_share.items())
    return Record(
        values,
        verdict_of(*signs),
        f"At the temperature that validation chose ({maps.temperature:g}): shares above 50 up to 70% less smaller ones "
        "(50% included) and less larger ones, in points, paired by seed; holds where both are above 0 beyond chance. "
        f"Means: {means}. {opposite(signs)}{maps.about}",
    )


def temperature(maps: Maps) -> Record:
    """Both limits of the prior; the chosen temperature against 1 where it is lower; higher ones against both."""
    rows = maps.shared
    chosen = group(rows, rows["temperature"] == maps.temperature)
    usual, wider = (group(rows, wanted) for wanted in (rows["temperature"] == 1, rows["temperature"] > 1))
    gains = {
        "chosen_minus_1": difference(chosen, usual) if maps.temperature < 1 else None,
        "above_1_minus_1": difference(wider, usual),
        "above_1_minus_chosen": difference(wider, chosen),
    }
    useful, wide, wider_than_chosen = (maps.sign(gain) for gain in gains.values())
    scores = np.random.default_rng(0).normal(size=(50, 10))
    cold, hot = tempered(scores, 1e-6), tempered(scores, 1e6)
    limits = bool((cold.argmax(1) == scores.argmax(1)).all() and cold.max(1).min() > 0.999 and np.ptp(hot) < 1e-4)
    wide_k = rows[rows["temperature"] > 1].groupby(["temperature", "share"])["mean_k"].mean()
    verdict = verdict_of(useful, -wide)
    if verdict != "holds" and useful == 1 and wider_than_chosen == -1:
        verdict = "holds with change"
    level = {1: "better than", 0: "no different beyond chance from", -1: "worse than"}[wider_than_chosen]
    found = f"Temperatures above 1 are better than 1 here, and {level} the chosen one. " if wide == 1 else ""
    kept = f"{wide_k.min():.1f} to {wide_k.max():.1f} of {maps.classes}" if len(wide_k) else "not run"
    return Record(
        {"temperature_at_most": maps.temperature, **known(gains), "mean_k_above_1": kept},
        verdict if limits else "fails",
        f"Both limits are {'as said' if limits else 'not as said'}. Means over all shares, in points, paired by seed: "
        "the temperature that validation chose less 1, and those above 1 less either. 'Useful' is the first above 0, "
        f"'not helpful' those above 1 worse than 1. {found}"
        + ("The change: 'not helpful' beside the sparser prior. " if verdict == "holds with change" else "")
        + opposite([useful, -wide])
        + f"Above 1 mean k* is {kept}: the more are kept, the nearer to no prior at all. No prior less the chosen one, "
        f"at the usual share: {effects(maps)['no prior'].difference}. {maps.about}",
    )


def figure_4a(maps: Maps) -> Record:
    """The two statements that the figure shows: where both have one verdict, that one."""
    both = [split(maps).verdict, temperature(maps).verdict]
    share, best = label_maps.best_prior(maps.shared, ["share", "temperature"])
    table = label_maps.mean_map(maps.shared, "final", "temperature", "share")
    return Record(
        {"epsilon": maps.epsilon, "stage1_share_above": float(share), "temperature_at_most": float(best)},
        both[0] if len(set(both)) == 1 else "undecided",
        f"Share: {both[0]}; temperature: {both[1]}. The values given are those of the best cell of our map, chosen by "
        f"its result; worst and best cell are {np.ptp(table.to_numpy()):.2f} points apart. {maps.about}",
        {f"{t:g}": row.tolist() for t, row in table.iterrows()} | {"share": table.columns.tolist()},
    )


def ends_against_middle(rows: pd.DataFrame) -> dict[str, Measured | None]:
    """Final accuracy of runs with a top-k accuracy above 96%, and up to 80%, less that between 80 and 94%."""
    ranged = label_maps.in_ranges(rows)
    middle = [name for name in ranged if name not in ("≤ 80", "94–96", "> 96")]
    centre = ranged[middle].mean(axis=1) if middle else None
    ends = {"above_96_minus_middle": ranged.get("> 96"), "up_to_80_minus_middle": ranged.get("≤ 80")}
    return {name: complete(end, centre) for name, end in ends.items()}


def _top_k(maps: Maps, names: Sequence[str]) -> tuple[dict[str, Any], str, str]:
    """Values, verdict and reason of a claim about the named ends of the top-k accuracy."""
    few = maps.shared[maps.shared["mean_k"].round() < maps.classes]
    every, ends = ({name: ends_against_middle(rows)[name] for name in names} for rows in (maps.shared, few))
    signs, literal = ([-maps.sign(end) for end in found.values()] for found in (ends, every))
    values = {name: end or "no such runs" for name, end in ends.items()}
    values |= {f"{name}_with_k_equal_K": end for name, end in every.items() if end != ends[name] and end is not None}
    high, all_high = ((rows["top_k"] > 96).sum() for rows in (few, maps.shared))
    middle = few["top_k"].between(80, 94, inclusive="right")
    ranges = {"above 96%": few["top_k"] > 96, "80 to 94%": middle, "up to 80%": few["top_k"] <= 80}
    used = {name: np.unique(few.loc[rows, "temperature"]) for name, rows in ranges.items() if rows.any()}
    where = [f"{name}: {', '.join(f'{t:g}' for t in temperatures)}" for name, temperatures in used.items()]
    verdict = verdict_of(*literal)
    change = verdict == "undecided" and verdict_of(*signs) == "holds"
    because = (
        f"Where k is rounded to all {maps.classes} classes, top-k accuracy is 100% by definition: "
        f"{all_high - high} of {all_high} runs above 96%, left out. "
        + ("The change: as long as k is less than the number of classes; with the others too it is not shown. "
           if change else "")
        + f"Temperatures of the runs in each range: {'; '.join(where)}. {opposite(signs)}{maps.about}"
    )  # fmt: skip
    return values, "holds with change" if change else verdict, because


def top_k(maps: Maps) -> Record:
    """A near-perfect top-k accuracy of stage 1 against the middle ranges."""
    values, verdict, because = _top_k(maps, ["above_96_minus_middle"])
    text = "Final accuracy of runs with a top-k accuracy of stage 1 above 96%, less that between 80 and 94%, in points"
    return Record(values, verdict, f"{text}, within a seed. {because}")


def figure_5(maps: Maps) -> Record:
    """Both ends against the middle."""
    values, verdict, because = _top_k(maps, ["above_96_minus_middle", "up_to_80_minus_middle"])
    return Record(
        {"epsilon": maps.epsilon, **values},
        verdict,
        f"Both ends against the middle (80 to 94%), in points, within a seed. {because}",
        {"top_k": maps.shared["top_k"].tolist(), "final": maps.shared["final"].tolist()},
    )


def robust(maps: Maps) -> Record:
    """Over both maps, LP-2ST against one stage: every cell beyond chance above it."""
    tables = {
        "share_temperature": (maps.shared, ["share", "temperature"]),
        "mixup": (maps.mixed, ["mixup_1", "mixup_2"]),
    }
    means = {name: rows.groupby(settings)["final"].mean() for name, (rows, settings) in tables.items()}
    cells = [cell for rows, settings in tables.values() for _, cell in rows.groupby(settings)]
    gains = [gain for cell in cells if (gain := less(cell, maps.one_stage)) is not None]
    worst = min(gains, key=lambda gain: gain.value, default=None)
    usual = less(maps.changed[maps.changed["change"] == next(iter(ABLATIONS))], maps.one_stage)
    signs = [maps.sign(gain) for gain in gains]
    return Record(
        {f"spread_{name}": float(np.ptp(values)) for name, values in means.items()}
        | {"cells": len(cells), "cells_above_one_stage": sum(gain.value > 0 for gain in gains)}
        | known({"worst_cell_minus_one_stage": worst, "chosen_settings_minus_one_stage": usual}),
        verdict_of(*signs),
        "Read as: over shares, temperatures and mixup coefficients LP-2ST stays better than LP-1ST at settings that "
        "validation chose, beyond chance in every cell. Spreads are between the worst and the best cell of a map, in "
        f"points, both chosen by their results. {opposite(signs)}{maps.about}",
    )
