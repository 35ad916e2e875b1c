"""The dials: their numbers against the functions and frozen results behind them, and the mechanism that shows them."""

import html
import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from dp_accounting.pld import privacy_loss_mechanism

from book.press import dials, dials_account, dials_data, dials_page
from book.press.dials_page import Control, Dial, Number, text
from dplib import accounting, gmm
from dplib import randomised_response as response
from papers.architecture import crossover
from papers.labels import randomised_response_lp as programs
from papers.screening import accounts, instances, leak_rows


@pytest.fixture(scope="module")
def made():
    """All dials by name."""
    return {dial.name: dial for dial in (make() for make in dials.DIALS)}


@pytest.fixture(scope="module")
def written(made, tmp_path_factory):
    """Folders with what the site build writes."""
    folder = tmp_path_factory.mktemp("dials")
    dials_page.write(list(made.values()), folder, folder)
    return folder


@pytest.mark.parametrize(
    ("signal", "noise", "p", "epsilon"),
    [
        ("dense", "none", 20, 0.1),
        ("sparse", "none", 2000, 0.1),
        ("dense", "unit", 100, 1.0),
        ("sparse", "unit", 700, 9.0),
        ("sparse", "L2", 200, 300.0),
        ("dense", "L1", 20, 30.0),
    ],
)
def test_errors_are_near_simulated_ones(signal, noise, p, epsilon):
    """Thousands of training sets: the first-order formula is off by less than 0.006 where the error is largest."""
    setting, rng = dials_data.mixture(signal, p), np.random.default_rng(5)
    scale = {"none": 0.0, "unit": 1.0}.get(noise)
    if scale is None:
        scale = 2 * gmm.max_norms(setting, int(noise[1]), 100, rng).mean()
    setting = replace(setting, noise_sd=scale * np.log(1 / dials_data.DELTA) / epsilon)
    simulated = 0.5 - gmm.advantage(gmm.draw_mirrored(setting, 2000, rng), setting.n).mean()
    assert dials_data.gmm_error(signal, noise, p, epsilon) == pytest.approx(simulated, abs=0.006)


def test_what_definition_2_spends(made):
    for epsilon in (0.1, 1.0, 10.0, 100.0):
        expected = gaussian_mechanism.get_epsilon_gaussian(-np.log(dials_data.DELTA) / epsilon, dials_data.DELTA)
        assert made["01"].computed(made["01"].start | {"epsilon": epsilon})["spent"] == pytest.approx(
            expected, abs=1e-6
        )


def test_crossings_follow_from_the_curves():
    """The estimate, made again from the means: isotonic curves, straight lines in log epsilon."""
    assert len(dials_data.pairs()) == 6
    for pair in dials_data.pairs():
        value = crossover._last(np.log(pair.epsilon), *pair.mean, True)
        assert pair.crossing[0] == pytest.approx(value, rel=0.005)  # of 0.138 and its like three digits are frozen
        assert pair.crossing[1] <= pair.crossing[0] <= pair.crossing[2]


def test_a_reader_between_two_budgets():
    pair = dials_data.pairs()[0]
    assert pair.at(pair.epsilon[2]).tolist() == pair.mean[:, 2].tolist()
    middle = np.sqrt(pair.epsilon[2] * pair.epsilon[3])
    assert pair.at(middle) == pytest.approx(pair.mean[:, 2:4].mean(axis=1))
    assert np.isnan(pair.at(0.01)).all()
    for one in (pair, dials_data.pairs()[4]):
        value, low, high = one.crossing
        assert np.isfinite([low, high]).all()
        assert [one.verdict(e) for e in (low / 2, low, value, high, 2 * high)] == [1, 0, 0, 0, -1]


@pytest.mark.parametrize(("shape", "sharpness", "epsilon"), list(product(range(3), (0.0, 0.3, 1.0), (0.2, 1.0, 4.0))))
def test_priors_against_a_linear_program_and_the_water_level(made, shape, sharpness, epsilon):
    answer = made["08"].computed({"shape": shape, "sharpness": sharpness, "epsilon": epsilon})
    p, level = answer["prior"], answer["level"]
    assert p.sum() == pytest.approx(1)
    assert (np.diff(p) <= 1e-15).all()
    assert answer["right"] == pytest.approx(programs.lp1(p, epsilon)[0], abs=1e-8)
    assert answer["w"][answer["k"] - 1] == pytest.approx(answer["w"].max(), abs=1e-14)
    assert np.maximum(p - level, 0).sum() == pytest.approx(np.expm1(epsilon) * level)
    assert (p >= level - 1e-12).sum() == answer["k"] == response.best_k(p, epsilon)


def test_one_update_is_that_of_the_ledger():
    spent, plain, claimed = dials_data.smallest_example()
    values = leak_rows.one_update_losses()
    names = ("one_rejection_exact", "limit_10_exact", "without_screening_exact", "claimed")
    expected = [values[f"one_update_{name}"] for name in names]
    assert [*spent[[1, 10]], plain, claimed] == pytest.approx(expected, rel=1e-12)


def test_screening_computed_again():
    """One point of the published curve, its acceptance rate, and the cost of all queries by another accountant."""
    found, setting = dials_data.screened()["MNIST"].set_index("push").loc[1.5], accounts.SETTINGS[0]
    instance = instances.linear(setting, 1.5, setting.limit, constant=True)
    assert found["rate"] == pytest.approx(instance.acceptance_rate, rel=1e-7)
    assert found["exact"] == pytest.approx(instances.epsilon(instance.cells, int(found["steps"])), rel=1e-7)
    queries = round(found["steps"] / found["rate"])
    by_pld = float(accounting.epsilon(setting.noise_multiplier, setting.sample_rate, queries, accounts.DELTA, "pld"))
    assert found["all"] == pytest.approx(by_pld, rel=5e-3)


@pytest.mark.parametrize("width", [0.7, 2.0])
def test_the_bells_by_another_program(made, width):
    """Where dp_accounting's Laplace noise of this width ends, and the delta of normal noise there."""
    at = made["00a-bells"].computed(made["00a-bells"].start | {"spread": width, "noise": 1, "output": 50.0})
    laplace = privacy_loss_mechanism.LaplacePrivacyLoss(width / 2**0.5)
    assert laplace.get_delta_for_epsilon(at["most"] * 0.999) > 0
    assert laplace.get_delta_for_epsilon(at["most"]) == pytest.approx(0, abs=1e-12)
    normal = privacy_loss_mechanism.GaussianPrivacyLoss(width)
    assert at["rest"] == pytest.approx(normal.get_delta_for_epsilon(at["most"]), abs=1e-9)
    assert at["loss"] == pytest.approx((50**2 - 49**2) / (2 * width**2))


def test_a_budget_pays_for_what_it_says(made):
    """One question more is too many."""
    dial = made["00a-budget"]
    for each, total in ((0.1, 3.0), (0.05, 3.0), (0.7, 12.0)):
        at = dial.computed(dial.start | {"each": each, "total": total})
        for number, way in ((at["by_sum"], "sum"), (at["by_theorem"], "theorem")):
            spent = [dial.computed(at | {"asked": float(k)})[way] for k in (max(number, 1), number + 1)]
            assert spent[0] <= total + 1e-6 or number == 0
            assert spent[1] > total


def test_every_position_has_an_answer(made):
    for dial in made.values():
        ends = (
            (control.least, control.start, control.most) if isinstance(control, Number) else range(len(control.options))
            for control in dial.controls
        )
        for positions in product(*ends):
            lines = dial.answer(**dict(zip((c.name for c in dial.controls), positions, strict=True)))
            assert lines
            assert not any("{" in line or "nan" in line for line in lines)


def test_the_pictures_descriptions_are_true(made):
    """Each number in an alternative text, from the data at the controls' start."""

    bells, curve, budget = (made[f"00a-{name}"] for name in ("bells", "curve", "budget"))
    at = bells.computed(bells.start | {"output": 5.0})
    assert f"rises from −1 to {at['loss']:.0f}" in bells.alt
    assert f"marks ε = {at['most']:.0f}".replace("marks", "mark") in bells.alt
    assert f"at most {curve.computed(curve.start)['hits']:.0%} hits" in " ".join(curve.alt.split()).replace(
        "there are ", ""
    )
    corner = 1 / (1 + np.e)
    assert curve.computed(curve.start | {"alarms": corner})["hits"] == pytest.approx(1 - corner)
    assert f"corner at {corner:.0%} false alarms and {1 - corner:.0%} hits" in curve.alt
    at = budget.computed(budget.start)
    assert f"spend {at['sum']:.1f}, beyond the dashed line of the budget of {budget.start['total']:.0f}" in budget.alt
    assert f"by the theorem {at['theorem']:.1f}" in budget.alt
    assert at["by_sum"] < at["by_theorem"]

    def errors(noise):
        return np.array([dials_data.gmm_error("sparse", noise, p, 10.0) for p in dials_data.DIMENSIONS])

    assert made["01"].start["epsilon"] == 10
    none, unit, l2, l1 = (errors(noise) for noise in ("none", "unit", "L2", "L1"))
    assert f"rises from 0 to {none[-1]:.2f}" in made["01"].alt
    assert f"sensitivity one to {unit[-1]:.2f}" in made["01"].alt
    assert f"rises from {l2[0]:.2f} to one half" in made["01"].alt
    assert min(l2[-1], l1.min()) > 0.49
    assert all(np.abs(a - b).max() > 0.04 for a, b in ((none, unit), (unit, l2), (l2, l1))), "two curves on one line"

    pair = dials_data.pairs()[made["04"].start["pair"]]
    assert pair.mean[0, 0] - pair.mean[1, 0] > 1
    assert abs(np.diff(pair.mean[:, -1])[0]) < 0.25
    assert f"ε = {pair.crossing[0]:.0f}, 95% interval from {pair.crossing[1]:.0f} to" in made["04"].alt

    p = dials_data.prior("long tail", made["08"].start["sharpness"])
    assert made["08"].computed(made["08"].start)["k"] == 2
    assert f"constant at ε = {response.switch_points(p)[0]:.1f}" in made["08"].alt
    assert f"joins plain randomised response at ε = {response.switch_points(p)[-1]:.1f}" in made["08"].alt

    mnist, alt = dials_data.screened()["MNIST"], made["12"].alt
    worst = mnist["exact"].argmax()
    assert made["12"].start["push"] == worst
    (push,) = [control for control in made["12"].controls if control.name == "push"]
    assert not [label for label in push.options if "%" in label], "a share that the marker does not stand at"
    assert f"rises to {mnist['exact'][worst]:.1f} near {mnist['rate'][worst]:.0%}" in alt
    assert mnist["exact"][mnist["rate"] > 0.41].max() < mnist["claimed"][0] < mnist["exact"][mnist["rate"] < 0.4].min()
    assert 9 < mnist["all"].max() < 9.5
    spent, plain, claimed = dials_data.smallest_example()
    assert f"claimed {claimed:.1f}, without screening {plain:.1f}; with it, it rises to" in alt
    assert f"rises to {spent.max():.1f} at {spent.argmax()} rejections" in alt
    assert f"falls to {spent[16]:.1f} from 16 on" in alt
    assert (np.diff(spent[:16]) > 0).all()
    assert spent[16:].max() < plain < claimed < spent[1]


def test_the_page_of_a_dial(made, written):
    for name, dial in made.items():
        page = (written / f"dial_{name}.html").read_text(encoding="utf-8")
        assert len(page.encode()) <= 300_000
        assert "http" not in page
        for control in dial.controls:
            assert f'<label for="dial-{name}-{control.name}">' in page
        assert "<noscript>" in page
        assert html.escape(dial.alt) in page
        picture = written / f"dial_{name}.svg"
        assert not picture.exists() if dial.figure else picture.read_text().startswith("<svg")
        data = json.loads(page.split('class="dial-data">')[1].split("</script>")[0])
        signals = {signal["name"] for chart in data["charts"] for signal in chart["signals"]}
        assert {*data["controls"], *data["numbers"], *dial.formulas} <= signals
    script = (written / "vega.js").read_text(encoding="utf-8")
    assert len(script) < 1_000_000
    assert script.startswith("(() => {"), "its names would meet those of other scripts"


def test_markup_in_texts_ends_no_script(made):
    control = Control("epsilon", "budget <ε>", ["1", "2"], start=1)
    size = text(("epsilon",), ["small", "</script> & large"])
    dial = Dial("toy", "Turn it", [control], made["12"].charts[:1], ["{epsilon}: {size}"], "nothing",
                parameters=made["12"].start, formulas={"size": size})  # fmt: skip
    assert dial.answer() == ["2: </script> & large"]
    assert dial.answer(epsilon=0) == ["1: small"]
    page = dials_page.embedded(dial)
    assert page.count("</script>") == 2
    assert "budget &lt;ε&gt;" in page


@pytest.mark.parametrize("place", np.random.default_rng(0).choice(math.prod(dials_account.SHAPE), 12, replace=False))
def test_the_table_of_what_a_training_spends_is_the_accountants(place):
    cell = list(dials_account.cells())[place]
    assert dials_account.table().flat[place] == pytest.approx(dials_account.spent(*cell), rel=1e-3)


def test_a_training_spends_more_with_less_noise_more_records_a_batch_and_more_steps():
    table = dials_account.table()
    assert table.shape == dials_account.SHAPE
    assert (np.diff(table, axis=0) > 0).all()
    assert (np.diff(table, axis=1) < 0).all()
    assert (np.diff(table, axis=2) > 0).all()
