"""Which parts of a plan a row reads, for the ways in which chapters write it."""

import pytest

from book.evidence import code_names, reads

KNOWN = {"01": ["curves", "checks", "more"], "11": ["table_1"]}
START = "from dplib import claims, plans\nrecord = claims.recorder(plan)\nstudy = plans.load('01', plan)\n"
READ = "a, b = (study.read(part) for part in ('curves', 'checks'))\n"
WAYS = {
    "by its id": ("a, b = study.read('curves'), study.read('checks')\nrecord('A.x', gain=f(a))", ["curves"]),
    "from a generator that is taken apart": (f"{READ}record('A.x', gain=b)", ["checks"]),
    "from a mapping of all rows": (
        f"{READ}values = {{'A.x': f(a), 'A.y': f(b)}}\n"
        "for row in ('x', 'y'):\n    record(f'A.{row}', **values[f'A.{row}'])",
        ["curves"],
    ),
    "from a function that is given both": (
        f"def rows(one, other):\n    found = {{'A.y': other}}\n    found['A.x'] = one\n    return found\n{READ}"
        "for row, values in rows(a, b).items():\n    record(row, **values)",
        ["curves"],
    ),
    "from united mappings": (
        f"def one(runs):\n    return {{'A.x': runs}}\ndef other(runs):\n    return {{'A.y': runs}}\n{READ}"
        "values = one(a) | other(b)\nrecord('A.x', **values['A.x'])",
        ["curves"],
    ),
    "by a name in what was read by names": (
        "found = {name: study.read(name) for name in study.parts}\nrecord('A.x', gain=found['more'])",
        ["more"],
    ),
    "in a loop over names": (
        "both = {label: study.read(part) for label, part in (('one', 'curves'), ('two', 'checks'))}\n"
        "record('A.x', gain=both)",
        ["checks", "curves"],
    ),
    "by a function with the name of a part": (
        "def rates(study, part):\n    return study.read(part)\nrecord('A.x', gain=rates(study, 'more'))",
        ["more"],
    ),
    "by an object that reads when it is made": (
        "class Runs:\n    def __init__(self, study):\n        self.read = study.read('curves')\n"
        "    def less(self):\n        return self.read\nruns = Runs(study)\nrecord('A.x', gain=runs.less())",
        ["curves"],
    ),
    "nothing": (f"{READ}record('A.x', gain=1)", []),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_row_reads(way):
    code, expected = WAYS[way]
    parts = reads.parts_in(code_names.code_of(START + code), "A.x", KNOWN, "01")
    assert [part for study, part in parts if study == "01"] == expected


def test_a_row_reads_the_plan_of_another_chapter():
    code = START + "other = plans.load('11').read('table_1')\nrecord('A.x', gain=other)"
    assert reads.parts_in(code_names.code_of(code), "A.x", KNOWN, "01") == [("11", "table_1")]


def test_a_row_of_a_table_reads_what_stands_by_the_id_of_the_table():
    code = (
        "def cells(runs):\n    return {id_: runs for id_ in claims.printed_rows('A.tab1')}\n"
        "def layers():\n    for n in range(2, 4):\n        yield f'A.tab{n}.b', {}\n"
        f"{START}{READ}for row, values in cells(b).items():\n    record(row, **values)\n"
        "for row, values in layers():\n    record(row, **values)"
    )
    assert reads.parts_in(code_names.code_of(code), "A.tab1.b", KNOWN, "01") == [("01", "checks")]
