"""A trace of annealed DP-SGD replayed by Algorithm 2: contradictions, and what chance decided."""

import math
import re

import pandas as pd

from dplib.runs import Result
from dplib.screening.annealing import Annealing, Screen, acceptance_probability
from dplib.screening.trace import BY_CHANCE, FORCED, REJECTED


def longest_rejections(outcomes: str) -> int:
    """The longest run of rejections in a trace."""
    return max((len(run) for run in re.findall("0+", outcomes)), default=0)


def contradictions(result: Result, annealing: Annealing) -> int:
    """Queries of a trace that Algorithm 2's steps do not allow, given the recorded changes of J.

    The uniform draws are not in a trace: where chance decides, both outcomes are allowed.
    """
    screen, wrong = Screen(annealing), 0
    for outcome, change in zip(result["outcomes"], result["changes"], strict=True):
        allowed = {Screen.decide(_copy(screen), change, u) for u in (0.0, 1 - 1e-12)}
        if int(outcome) not in allowed:
            wrong += 1
        _follow(screen, int(outcome))
    return wrong


def chances(result: Result, annealing: Annealing) -> pd.DataFrame:
    """The queries of a trace that chance decides: J rises, and the limit on rejections is not reached.

    Returns:
        Columns query (from 0), change of J, probability (e^(-Q change), by the replayed temperature) and passed.
    """
    screen, rows = Screen(annealing), []
    for query, (outcome, change) in enumerate(zip(result["outcomes"], result["changes"], strict=True)):
        if change > 0 and Screen.decide(_copy(screen), math.inf, 0.5) != FORCED:
            probability = acceptance_probability(change, screen.temperature)
            rows.append((query, change, probability, int(outcome) == BY_CHANCE))
        _follow(screen, int(outcome))
    return pd.DataFrame(rows, columns=["query", "change", "probability", "passed"])


def _follow(screen: Screen, outcome: int) -> None:
    """Algorithm 2's counters after a recorded outcome."""
    screen.queries += 1
    screen.accepted += outcome != REJECTED
    screen.rejections = screen.rejections + 1 if outcome == REJECTED else 0
    screen.temperature = screen.annealing.initial_temperature * screen.accepted


def _copy(screen: Screen) -> Screen:
    other = Screen(screen.annealing)
    other.__dict__.update(screen.__dict__)
    return other
