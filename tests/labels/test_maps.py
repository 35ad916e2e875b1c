"""Rows, maps and ranges of results that are written down here."""

import numpy as np
import pytest

from dplib.checks import ParameterError
from dplib.labels import maps


def stage(top, **named):
    usual = {"mean_k": 10.0, "right": 0.5, "covered": 1.0, "reused": 0, "kept": 0}
    return usual | {"wrong_before": None, "wrong_after": None, "wrong": 0.5, "evaluation": {"top": top}} | named


def job(seed, share=0.6, temperatures=(0.5, 1.0)):
    variants = [{"temperature": t} for t in temperatures]
    return {"seed": seed, "epsilon": 2.0, "shares": [share, 1 - share], "variants": variants}


def result(finals, mean_ks=(1.6, 2.4), first=(0.5, 0.7, 0.9)):
    later = [stage([f, 0.95], mean_k=k, reused=60, kept=45) for f, k in zip(finals, mean_ks, strict=True)]
    return {"variants": [[stage(list(first)), last] for last in later]}


JOBS = [job(0), job(1), job(2)]
RESULTS = [result((0.60, 0.64)), result((0.62, 0.63), (1.4, 2.6)), result((0.61, 0.68))]


@pytest.fixture
def table():
    return maps.frame(JOBS, RESULTS)


def test_one_row_for_each_run_and_variant(table):
    assert len(table) == 6
    row = table[(table.seed == 1) & (table.temperature == 1.0)].iloc[0]
    assert row["final"] == 63
    assert row["first"] == 50
    assert row["top_2"] == 70
    assert row["top_k"] == 90  # k = 3, the rounded 2.6
    assert row["kept"] == 0.75
    assert row["share"] == 60
    assert table["top_k"].tolist() == [70, 70, 50, 90, 70, 70]


def test_runs_without_variants_or_privacy_have_rows_too():
    table = maps.frame([{"seed": 3, "epsilon": None, "shares": [1.0]}], [{"variants": [[stage([0.9, 0.95])]]}])
    assert table.loc[0, ["final", "first", "epsilon", "stages"]].tolist() == [90, 90, np.inf, 1]
    assert np.isnan(table.loc[0, "top_k"])


def test_evaluations_without_accuracies_keep_their_numbers():
    last = stage([]) | {"evaluation": {"rmse": 0.9, "unmixed": None}}
    table = maps.frame([{"seed": 0, "epsilon": 1.0, "shares": [1.0]}], [{"variants": [[last]]}])
    assert table.loc[0, "rmse"] == 0.9
    assert "final" not in table


def test_variants_are_compared_within_a_seed(table):
    found = maps.paired(table, "final", {"temperature": 1.0}, {"temperature": 0.5})
    differences = np.array([4.0, 1.0, 7.0])
    assert found.difference.value == pytest.approx(4)
    assert found.difference.high - 4 == pytest.approx(4.302653 * differences.std(ddof=1) / np.sqrt(3))


def test_what_cannot_be_paired_is_refused(table):
    with pytest.raises(ParameterError, match="matches 6 rows of 3 seeds"):
        maps.paired(table, "final", {"share": 60.0}, {"temperature": 0.5})
    with pytest.raises(ParameterError, match="matches 0 rows"):
        maps.by_seed(table, "final", {"temperature": 9.0})
    with pytest.raises(ParameterError, match="same seeds"):
        maps.paired(table[table.seed + table.variant != 0], "final", {"variant": 0}, {"variant": 1})


def test_maps_are_means_over_seeds(table):
    found = maps.mean_map(table, "final", "share", "temperature")
    assert found.loc[60.0].tolist() == pytest.approx([61, 65])
    assert maps.best_prior(table, ["share", "temperature"]) == (60.0, 1.0)
    assert maps.best_prior(table, ["temperature"]) == (1.0,)


def test_ranges_are_those_of_figure_5_with_means_within_a_seed(table):
    found = maps.in_ranges(table)
    assert list(found.columns) == ["≤ 80", "88–90"]  # 90 counts below
    assert found["≤ 80"].tolist() == pytest.approx([62, 62, 64.5])
    assert found["88–90"].isna().tolist() == [True, False, True]
    assert found.loc[1, "88–90"] == 63
    high = maps.in_ranges(table.assign(top_k=[81, 96, 97, 100, 96.5, 80]))
    assert list(high.columns) == ["≤ 80", "80–84", "94–96", "> 96"]
