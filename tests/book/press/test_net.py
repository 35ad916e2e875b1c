"""What is compared before and after a move: a value, a verdict, an answer or an anchor that is lost is named."""

import copy

from book.press import net

FOUND = {
    "records": {"01 A.thm6": {"verdict": "holds", "values": {"error": {"value": 0.1, "low": None}, "n": 3}}},
    "answers": {"01": [{"error": 0.25, "names": ["a", "b"]}]},
    "anchors": {"01.html#A.thm6": ""},
}


def changed(path, value):
    after = copy.deepcopy(FOUND)
    inside = after
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = value
    return list(net.differences(FOUND, after))


def test_what_is_the_same_says_nothing():
    assert changed(("answers", "01", 0, "error"), 0.25 * (1 + 1e-12)) == []
    assert list(net.differences({"x": float("nan")}, {"x": float("nan")})) == []


def test_what_moved_is_named():
    assert changed(("answers", "01", 0, "error"), 0.2501) == ["/answers/01/0/error: 0.25 became 0.2501"]
    assert changed(("records", "01 A.thm6", "verdict"), "fails")[0].startswith("/records/01 A.thm6/verdict")
    assert changed(("answers", "01", 0, "names"), ["a"])[0].startswith("/answers/01/0/names")
    assert changed(("records", "01 A.thm6", "values"), {"error": FOUND["records"]["01 A.thm6"]["values"]["error"]}) == [
        "/records/01 A.thm6/values/n: gone"
    ]
    assert changed(("anchors", "02.html#new"), "") == ["/anchors/02.html#new: new"]


def test_anchors_are_those_that_people_link_to(tmp_path):
    (tmp_path / "a.html").write_text('<p id="A.thm6"><p id="id12"><p id="the-rule"><p id="pst-nav">')
    assert net._anchors(tmp_path / "a.html") == {"A.thm6", "the-rule"}
