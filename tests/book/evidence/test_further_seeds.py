"""No page leaves seeds of its own setting unread."""

from book.evidence import further_seeds, history_log, runs


def line(seed, version=1, **job):
    return {"experiment": "toy", "version": version, "device": "cpu", "job": {"seed": seed, **job}}


def found(lines, read):
    return further_seeds.further(lines, lambda each: each["job"]["seed"] in read)


def test_a_seed_that_is_kept_and_not_read_is_told():
    lines = [line(seed, rate=0.1) for seed in range(5)] + [line(9, rate=0.2)]
    (left,) = found(lines, {0, 1, 2})
    assert (left.experiment, left.read, left.unread) == ("toy", (0, 1, 2), (3, 4))
    assert found(lines, {0, 1, 2, 3, 4}) == []  # of the other setting no seed is read: nothing is said of it


def test_another_version_and_seeds_that_choose_settings_are_no_further_ones():
    assert found([line(0), line(1, version=2), line(1000)], {0}) == []


def test_no_page_leaves_seeds_unread():
    read = set().union(*history_log._made().values())
    lines = [each for name in runs.names() for each in runs.lines(name)]
    assert len(lines) > 20_000
    assert further_seeds.further(lines, lambda each: f"{each['experiment']} {runs.key_of_line(each)}" in read) == []
