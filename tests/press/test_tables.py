"""The tables that pages include: each row that needs a GPU has a plan, and what five seeds can see."""

import pytest

from dplib import claims, plans, stats
from dplib.checks import ParameterError
from press import tables

ROWS = list(claims.load_all().values())
# What would decide these is not to be had: the features of BYOL and DINO, Table XVII's own machine.
WITHOUT = {"C.s-histogram-share", "C.s-cluster-counts"}


def test_a_row_that_needs_a_gpu_has_a_plan():
    routed = {claim.id for rows in tables.routes(ROWS).values() for some in rows.values() for claim in some}
    for claim in ROWS:
        if claim.expects in tables.OPEN and "GPU" in f"{claim.because} {claim.note} {claim.rule}":
            assert claim.id in routed | WITHOUT or claim.sort == "cited", claim.id


def test_every_part_on_a_gpu_is_reckoned():
    """And what is reckoned has such a part."""
    with_gpus = {study for study in plans.studies() for name in plans.names(study)
                 if any(part.device == "cuda" for part in plans.load(study, name).parts.values())}  # fmt: skip
    assert with_gpus == {study for study in plans.studies() if plans.on_gpu(study)}


def test_a_row_that_is_none_is_refused(monkeypatch):
    monkeypatch.setattr(plans, "on_gpu", lambda study: plans.OnGPU(1, "", ["A.nothing*"]))
    with pytest.raises(ParameterError, match=r"A.nothing\* of plan .* is no row of the ledger"):
        tables.routes(ROWS)


def test_the_data_of_a_plan():
    assert tables.gpu_data("02") == ["cifar10"]


def test_the_number_of_seeds_is_the_least_that_sees_the_difference():
    n = tables.needed(0.12)
    assert 0.12 * stats.visible_difference(n) <= tables.SEEN < 0.12 * stats.visible_difference(n - 1)


def test_the_page_quotes_its_table():
    spread = {name: (a - b).std(ddof=1) for name, a, b in tables.comparisons()}
    annealed = spread["MNIST, ε = 3: annealed, tanh (chapter 11)"]
    assert annealed * stats.visible_difference(5) == pytest.approx(0.20, abs=0.005)
    assert tables.needed(annealed) == 13
