"""Where paper B's tables contradict each other, their captions, or the settings beside them: all from the ledger."""

import math
from dataclasses import dataclass

from dplib import claims
from dplib.architecture import printed_budgets


@dataclass(frozen=True)
class Contradiction:
    """Two printed statements that cannot both be right; ``chapter`` is where it matters."""

    what: str
    printed: str
    against: str
    chapter: str


def contradictions() -> list[Contradiction]:
    """Every contradiction that we found and that no other row of the ledger resolves."""
    return [*_one_number_for_two_settings(), *_two_numbers_for_one_setting(), *_exchanged_captions()]


def _published(claim_id, name):
    return claims.get(claim_id).published[name]


def _percent(claim_id, name):
    return f"{_published(claim_id, name):.2f}%"


def _one_number_for_two_settings():
    settings = {name: _published("B.paas-settings", name) for name in ("batch_size", "epochs")}
    search = printed_budgets.Setting(n=60_000, noise_multiplier=2.0, **settings)
    return [
        Contradiction(
            "STW CNN, MNIST: one accuracy, two budgets",
            f"{_percent('B.table4.eps1.09-stw', 'acc_dpsgd')} at ε = 1.09 (Table IV, 150 epochs)",
            f"{_percent('B.fcn-beats-cnn', 'acc_cnn')} at ε = 2.11 (Section VI-D, 500 epochs)",
            "04",
        ),
        Contradiction(
            "ε of the MNIST trainings inside the search",
            f"{_published('B.search-comparison', 'epsilon_training')} (Table VIII)",
            f"{printed_budgets.tool_epsilon(search):.2f}, from {search} (Sections IV-B, IX-A)",
            "07",
        ),
        Contradiction(
            "MNIST examples for 85% at ε = 1, simple network",
            f"{_published('B.effective-sample', 'n_simple'):,} (Section VI-B)",
            f"{_examples_by_the_fit(1.0):,.0f} by the printed fit (Section VI-B)",
            "03",
        ),
    ]


def _examples_by_the_fit(epsilon):
    """n at which ε = ln(α + β/n)."""
    alpha, beta = (_published("B.eps-fit", name) for name in ("alpha", "beta"))
    return beta / (math.exp(epsilon) - alpha)


def _two_numbers_for_one_setting():
    small, complex_net = "B.table6.fcn-small", "B.table7.complex"
    first, second = "B.table1.fcn-mnist-paw", "B.table9.eps2.11-paw"
    return [
        Contradiction(
            "FCN of 9,610 parameters, MNIST, ε = 2.11",
            f"{_percent(first, 'acc_dpsgd')} with DP-SGD, {_percent(first, 'acc_sgd')} with SGD (Table I)",
            f"{_percent(second, 'acc_dpsgd')} and {_percent(second, 'acc_sgd')} (Table IX)",
            "07",
        ),
        Contradiction(
            "FCN of 1,362,122 parameters, MNIST, ε = 0.34",
            f"{_percent(f'{small}-normal', 'acc')} all layers, {_percent(f'{small}-rwt', 'acc')} two (Table VI)",
            f"{_percent(f'{complex_net}-normal', 'acc_dpsgd')} and {_percent(f'{complex_net}-rwt', 'acc_dpsgd')} "
            "(Table VII)",
            "05",
        ),
    ]


def _exchanged_captions():
    rows = {
        table: [id_ for id_ in claims.load("B") if id_.startswith(f"B.{table}.")] for table in ("table2", "table18")
    }
    largest = max(_published(id_, "n_features") for id_ in rows["table18"] if not id_.endswith("-all"))
    tests = _published("B.data-breast-cancer", "n_test")
    accuracies = [_published(id_, "acc_sgd") for id_ in rows["table2"]]
    multiples = sum(any(round(100 * k / tests, 2) == value for k in range(tests + 1)) for value in accuracies)
    return [
        Contradiction(
            "Table XVIII, captioned Breast Cancer",
            f"subsets of up to {largest} features",
            f"{_published('B.data-breast-cancer', 'features')} features in the data (Section IV-A)",
            "06",
        ),
        Contradiction(
            "Table II, captioned Adult",
            f"{multiples} of {len(accuracies)} SGD accuracies are multiples of 1/{tests}",
            f"{tests} test records of Breast Cancer, {_published('B.data-adult', 'n_test'):,} of Adult",
            "06",
        ),
        Contradiction(
            "Batch of Tables II and XVIII",
            f"{_published('B.mechanism-does-not-matter', 'batch_size')} (Section V-B)",
            f"{_published('B.data-breast-cancer', 'n_train')} training records of Breast Cancer",
            "06",
        ),
    ]
