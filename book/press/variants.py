"""Assignments whose public solutions fail: results in units that are drawn from a seed which the teacher keeps.

A question whose last function returns a number, or an array, asks for it in units of its own, a power of two: there
and back rounds nothing, so that no unit makes a right answer fail. Tests multiply by the unit before they compare. A
question is changed only where this was tried: the changed solution must earn full marks and the public one less. Who
copies is found out; who reads the sentence and divides is not.
"""

import re
import zlib
from dataclasses import replace

import numpy as np

from book.press import marking
from book.press.marking import Assignment, Question
from dplib.checks import ParameterError


def variant(assignment: Assignment, seed: int) -> Assignment:
    """The assignment with other numbers; the same for the same seed.

    Raises:
        ParameterError: where no question can be changed.
    """
    rng = np.random.default_rng([seed, zlib.crc32(assignment.name.encode())])
    units = 2 ** rng.choice(np.arange(1, 11), len(assignment.questions), replace=False)
    changed, version = assignment, []
    for place, unit in enumerate(units):
        tried = _changed(changed, place, int(unit))
        works = tried and _works(changed, tried, place)
        version.append(str(unit if works else 1))  # what its text says, and nothing of the seed
        if works:
            changed = tried
    if changed is assignment:
        raise ParameterError(f"{assignment.name}: no question of it returns a number that nothing else uses.")
    return replace(changed, version=".".join(version))


def _changed(assignment: Assignment, place: int, unit: int) -> Assignment | None:
    """One question in units of ``unit``; None where its last function is used by another question."""
    question = assignment.questions[place]
    names = re.findall(r"^def (\w+)\(", "\n".join(question.cells["solution"]), re.MULTILINE)
    others = [other for other in assignment.questions if other is not question]
    used = [code for other in others for cells in other.cells.values() for code in cells]
    if not names or any(re.search(rf"\b{names[-1]}\b", code) for code in used):
        return None
    questions = list(assignment.questions)
    questions[place] = _in_units(question, names[-1], unit)
    return replace(assignment, questions=questions)


def _in_units(question: Question, name: str, unit: int) -> Question:
    """The question with its text, solution and tests changed."""
    after = f"# BEGIN SOLUTION\n_plain_{name} = {name}\n\n\ndef {name}(*values, **named):\n"
    after += f"    return np.asarray(_plain_{name}(*values, **named)) / {unit}\n# END SOLUTION"
    before = f"def in_plain_units(*values, **named):\n    return {unit} * np.asarray({name}(*values, **named))\n\n\n"
    cells = {
        kind: [before + re.sub(rf"\b{name}\(", "in_plain_units(", code) for code in question.cells[kind]]
        for kind in ("check", "hidden")
    }
    cells["solution"] = [*question.cells["solution"], after]
    text = f"{question.text}\n\n**In your version** `{name}` returns this in units of {unit}: divide by {unit}."
    return replace(question, text=text, cells=cells)


def _works(public: Assignment, tried: Assignment, place: int) -> bool:
    """Whether the tried solution earns all of the question's points, and the public one does not."""
    solutions = [
        [code for question in which.questions for code in question.cells["solution"]] for which in (tried, public)
    ]
    mine, theirs = (marking.marks(tried, answers, only=place) for answers in solutions)
    return abs(mine - tried.questions[place].points) < 1e-9 and theirs < mine
