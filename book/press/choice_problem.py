"""A problem that "Choose a model" is asked about: sizes, budget, and what is to be protected."""

import math
from dataclasses import dataclass

from dplib import checks
from dplib.checks import ParameterError
from press.choice_evidence import IMAGE, LABELS, RECORDS, TABLE, TEXT

LEAST_LABELS = 0.02  # a smaller epsilon, halved, is below what the accountant's orders can certify
RANGES = {
    "n": checks.integer(10, 10**9),
    "d": checks.integer(1, 10**7),
    "classes": checks.integer(2, 1000),
    "epsilon": checks.number(0.005, 1000),
    "delta": checks.number(0, 0.99),
    "kind": checks.one_of(IMAGE, TABLE, TEXT),
    "private": checks.one_of(RECORDS, LABELS),
    "public": checks.boolean(),
    "accuracy_without_privacy": checks.number(0, 100),
    "frequent_class": checks.number(0, 99.9),
}


@dataclass(frozen=True)
class Problem:
    """What is to be learned, and what is to be protected.

    Attributes:
        n: training records. d: numbers in a record. classes: of the label. epsilon, delta: the budget; delta 0 asks
            for pure DP. kind: image, table or text. private: "records", or only the "labels".
        public: whether public data of the same kind are at hand.
        accuracy_without_privacy: test accuracy (%) that the advised model would reach without privacy, from public
            knowledge; 0: unknown. frequent_class: percentage of the most frequent class; 0: unknown, all alike.

    Raises:
        ParameterError: for a value outside :data:`RANGES`, a delta above 1 / n, or an epsilon below
            :data:`LEAST_LABELS` where only labels are private.
    """

    n: int
    d: int
    classes: int
    epsilon: float
    delta: float
    kind: str
    private: str = RECORDS
    public: bool = False
    accuracy_without_privacy: float = 0.0
    frequent_class: float = 0.0

    def __post_init__(self):
        for name, rule in RANGES.items():
            rule.check(name, getattr(self, name))
        if self.private == LABELS and self.epsilon < LEAST_LABELS:
            raise ParameterError(
                f"epsilon = {self.epsilon:g} is not allowed: for private labels it must be at least {LEAST_LABELS:g}, "
                "of which DP-SGD gets half."
            )
        if self.delta > 1 / self.n:
            raise ParameterError(
                f"delta = {self.delta:g} is not allowed: it must be at most 1/n = {1 / self.n:.3g}, for else a "
                "mechanism that publishes a whole record now and then would count as private."
            )
        if 0 < self.frequent_class < 100 / self.classes:
            raise ParameterError(
                f"frequent_class = {self.frequent_class:g} is not allowed: of {self.classes} classes the most frequent "
                f"one has at least {100 / self.classes:.3g}% (0: unknown)."
            )
        if 0 < self.accuracy_without_privacy <= self.floor:
            raise ParameterError(
                f"accuracy_without_privacy = {self.accuracy_without_privacy:g} is not allowed: it must be above the "
                f"{self.floor:.3g}% of a constant prediction (0: unknown)."
            )

    @property
    def floor(self) -> float:
        """Accuracy (%) of a constant prediction, 100 / classes where the most frequent class is not known."""
        return self.frequent_class or 100 / self.classes

    @property
    def record_epsilon(self) -> float:
        """Epsilon for one record added or removed that covers what is asked for: half of it for a replaced label.

        Replacing a label is removing one record and adding another: (epsilon / 2, delta') for one of them gives
        (epsilon, (1 + e^(epsilon / 2)) delta') for both.
        """
        return self.epsilon / 2 if self.private == LABELS else self.epsilon

    @property
    def record_delta(self) -> float:
        """The delta that goes with :attr:`record_epsilon`."""
        return self.delta / (1 + math.exp(self.record_epsilon)) if self.private == LABELS else self.delta

    @property
    def facts(self) -> dict[str, float | str | bool]:
        """What the questions and the caveats ask for; n times epsilon is asked where whole records are protected."""
        own = {name: getattr(self, name) for name in ("n", "d", "classes", "epsilon", "delta", "kind", "private")}
        return own | {
            "public": "yes" if self.public else "no",
            "n_epsilon": self.n * self.record_epsilon,
            "exposed": -math.expm1(self.n * math.log1p(-self.delta)),
        }
