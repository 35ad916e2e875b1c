"""The tables that pages include: verdicts, executions, data sets, benchmarks, what seeds can see, what needs a GPU."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
from typing_extensions import TypedDict

from book.evidence import history, plans, runs, sources
from book.evidence import readings as blind
from book.evidence import readings_without_rule as unruled
from book.evidence.claims import NOT_RUN, PAPERS, RESULTS, VERDICTS, Claim
from book.press import ledger
from dplib import data, files, stats
from papers.common import diverged


def table(head: str, rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; ``head`` names its columns between bars, numbers' with a colon behind them."""
    names = [name.strip() for name in head.split("|")]
    rule = ["---:" if name.endswith(":") else "---" for name in names]
    lines = [[name.removesuffix(":") for name in names], rule, *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def counts(rows: list[ledger.Row]) -> str:
    """Verdicts by paper and how many rows have a rule that came first; then the verdicts by the first rules.

    A line for each verdict: a phone has no room for their columns.
    """
    papers = {paper: [row for row in rows if row.claim.paper == paper] for paper in PAPERS} | {"all": rows}
    more = {
        "all": len,
        "rule came first": lambda of: sum(row.past.order == history.FIRST for row in of),
        "other verdict by the first rule": lambda of: sum(ledger.first(row) != row.verdict for row in of),
    }
    head = " | ".join(["verdict", *(f"{name}:" for name in papers)])

    def lines(verdict: Callable[[ledger.Row], str]) -> list[list[Any]]:
        counted = [Counter(map(verdict, of)) for of in papers.values()]
        return [[name, *(count[name] for count in counted)] for name in VERDICTS]

    today = lines(lambda row: row.verdict) + [[name, *map(of, papers.values())] for name, of in more.items()]
    return f"{table(head, today)}\nBy the first rule that each row had:\n\n{table(head, lines(ledger.first))}"


def readings(path: Path | None = None) -> str:
    """How far two blind readings of the claims agree, and how many plants each caught, in words and a table."""
    path = path or blind.PATH
    meant = (
        "Readings are automated, and of one kind. A packet states the rule, and a reader mostly applies it: agreement "
        "shows that rule and text are clear, a caught plant that a reader looked at values. Whether a rule is a fair "
        "reading of its paper, neither shows. `python -m book readings packets FOLDER` makes "
        "the packets: statement, place, readings, rule and values of each claim, no verdict, no reason, and among them "
        "plants, whose values are turned.\n"
    )
    if not path.exists():
        return f"Nobody has read the claims of this edition blind yet. {meant}"
    scores = files.read(path)
    caught = ", ".join(f"the {which} reading caught {got} of {of}" for which, (got, of) in scores["caught"].items())
    agreed = f"{scores['agree']} of {scores['both']}, Cohen's kappa {scores['kappa']}"
    agreement = ", ".join(f"the {which} on {got} of {of}" for which, (got, of) in scores["with_ledger"].items())
    apart = [  # a list, since a phone has no room for five columns
        f"- `{row['row']}`: the ledger says *{row['ledger']}*, the first reading *{row['first']}*, the second "
        f"*{row['second']}*" + (f", a third settled on *{row['settled']}*." if row["settled"] else ".")
        for row in scores["disputed"]
    ]
    apart += [
        f"- `{row['row']}`: the ledger says *{row['ledger']}*, both *{row['both']}*." for row in scores["against"]
    ]
    text = (
        "Each claim was judged twice, from a packet that does not tell its verdict. Plants are packets whose values "
        f"were turned round, to see whether anybody looks at them: {caught}. The two readings agree on {agreed}. With "
        f"the ledger they agree, {agreement}. That is the ledger of the day of the readings: rows whose rule was "
        f"changed since were not read again. {meant}"
    )
    if apart:
        apart = ["Otherwise than the ledger, or each other, they say:\n", *apart, ""]
    return "\n".join([text, *apart])


def readings_without_rule(path: Path | None = None) -> str:
    """What two blind readings made of sentences and values without being told the rules, in words and two tables."""
    path = path or unruled.PATH
    how = (
        "`python -m book readings without-rule FOLDER` draws 60 packets that tell no rule: the sentence, the paper's "
        "text around it, how it was measured, and the values. Forty are rows, equally many of each verdict; twenty are "
        "plants, rows whose numbers were turned round.\n"
    )
    if not path.exists():
        return f"Nobody has read packets without a rule yet. {how}"
    score = files.read(path)
    if score["readings"] == 1:
        apart = f"So far one reader has read them, so that nothing is known of agreement. Rows: {score['both']}."
    else:
        apart = (
            f"Of {score['both']} rows both give {score['agree']} the same verdict (Cohen's kappa "
            f"{score['kappa']:.2f}), and {score['agree_coarse']} the same side of three: as printed, not as printed, "
            f"open ({score['kappa_coarse']:.2f})."
        )
    text = (
        f"{how}\nReaders put {_each(score['caught'])} of {score['plants']} plants on the side of their turned numbers, "
        f"and {_each(score['fooled'])} on that of the row as it was. {apart} They give the ledger's own verdict to "
        f"{_each(score['with_ledger'])} of these, and its side to {_each(score['with_ledger_coarse'])}: that of the "
        "day of the readings, before later changes of rules.\n\n"
        "What this shows: how often somebody who is told the sentence and the numbers, and has to find the rule alone, "
        "comes to the ledger's word. What it does not: the readings are automated and of one kind, so that their "
        "errors may be the same; the sample has equally many of each verdict, and so says nothing of the share of "
        "right rows in the ledger; and a reader without the paper's figures, the margins and the readings that a row "
        "lists has less to judge by.\n"
    )
    words = [[word, *(*counts, "–")[:3]] for word, counts in score["by_verdict"].items()]
    lines = [[f"`{row['row']}`", row["ledger"], row["first"], row["second"]] for row in score["against"]]
    told = table("verdict of the ledger | rows: | the first says the same: | the second:", words)
    if not lines:
        return f"{text}\n{told}"
    others = table("row | ledger | first | second", lines)
    return f"{text}\n{told}\nRows that every reading puts on another side:\n\n{others}"


def _each(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


def changes(rows: list[ledger.Row]) -> str:
    """Rows whose verdict is another than in the last edition, and new ones: old and new verdict, and the reasons.

    A list and no table: a reason is a paragraph, which a column of a phone cannot show.
    """
    stored = history.read()
    moves: Counter[tuple[str, str]] = Counter()
    lines = []
    for row in rows:
        before, why = history.since_last_edition(stored, row.claim.id)
        now = f"{row.verdict}, {row.points}" if row.points else row.verdict
        if before == row.verdict or (not before and row.verdict == NOT_RUN):
            continue
        moves[before or "new", row.verdict] += 1
        link = f'<a href="ledger.html#{row.claim.id}"><code>{row.claim.id}</code></a>'
        told = " ".join(reason.rstrip(".") + "." for reason in why) or row.because
        told = ": " + told.replace("$", "\\$") if told else ""
        lines.append(f"- {link}, {before or 'new'}, now **{now}**{told}")
    counted = table("then | now | rows:", [[*move, n] for move, n in moves.most_common()])
    return "\n".join([f"{len(lines)} rows.", "", counted, *lines]) + "\n"


def status(chapters: list[ledger.Executed]) -> str:
    """Each chapter's last execution: seconds, commit, hardware, versions, and what it rests on."""
    lines, bases = [], []
    machines: dict[str, list[str]] = {}
    for run in chapters:
        p, b = run.provenance, run.basis
        commit = f"`{p['commit']}`" if p["commit"] else "–"
        link = f"[{run.chapter}](../notebooks/{run.chapter})"
        lines.append([link, f"{p['seconds']:.0f}", p["date"][:10], commit])
        names = "; ".join(dataset["name"] for dataset in b.get("datasets", ())) or "–"
        bases.append(f"- {link}. Data: {names}. Seeds: {b.get('seeds', '–')}.")
        machines.setdefault(_machine(run.provenance), []).append(run.chapter)
    together = [
        f"- {'All chapters' if len(names) == len(chapters) else ', '.join(names)}: {machine}."
        for machine, names in machines.items()
    ]
    timed = table("chapter | seconds: | date | commit", lines)
    return "\n".join([timed, "## On what", "", *together, "", "## Data and seeds", "", *bases]) + "\n"


def _machine(of: Mapping[str, Any]) -> str:
    hardware = of["hardware"]
    parts = [hardware["processor"], f"{hardware['cores']} cores", hardware.get("gpu"), hardware.get("system")]
    packages = ", ".join(f"{name} {version}" for name, version in of["versions"].items() if version)
    return f"{', '.join(filter(None, parts))}; {packages}"


def data_sets() -> str:
    """The data sets: papers, size, licence, what each stands in for; not what is present here."""
    lines = []
    for row in data.table():
        size = f"{row.bytes / 1e6:.1f} MB" if row.bytes else "in scikit-learn" if row.embedded else "–"
        note = f"stand-in for {row.stand_in_for}" if row.stand_in_for else ""
        lines.append([f"`{row.name}`", ", ".join(row.papers), size, row.licence, note])
    return table("name | papers | size: | licence | note", lines)


class _Ratio(TypedDict):
    what: str
    ratio_of: str
    ratio: float
    at_most: NotRequired[float]
    at_least: NotRequired[float]
    met: NotRequired[bool]


class _Benchmark(TypedDict):
    benchmark: str
    rows: list[_Ratio]
    hardware: dict[str, Any]
    versions: dict[str, Any]


# Columns of the table of other libraries, and what their rows are called.
PEERS = {
    "ghost": "Opacus's ghost clipping / dplib",
    "hooks": "Opacus's hooks / dplib",
    "jax-privacy": "jax-privacy in its quickest pieces / dplib",
    "by hand": "JAX by hand / dplib",
}
WHOLE = "jax-privacy as it is / dplib"


def benchmarks(results: Path = RESULTS) -> str:
    """Ratios of run times that ``make bench`` measured: those with a limit, those without, and their machines."""
    benchmarks_ = [files.checked(path, _Benchmark) for path in sorted(results.glob("bench_*.json"))]
    by_name = {benchmark["benchmark"]: benchmark["rows"] for benchmark in benchmarks_}
    peers = by_name.pop("peers", [])
    rows = [row for rows in by_name.values() for row in rows]
    parts = [_in_short(rows, peers), _beside(peers)] if peers else []
    for bound, words in (("at_most", "at most"), ("at_least", "at least")):
        lines = [
            [
                row["what"],
                row["ratio_of"],
                f"{row['ratio']:.3g}",
                f"{row[bound]:g}",
                "met" if row["met"] else "**missed**",
            ]
            for row in rows
            if bound in row
        ]
        parts.append(table(f"what | ratio of | measured: | {words}: | ", lines))
    free = [[r["what"], r["ratio_of"], f"{r['ratio']:.3g}"] for r in rows if not {"at_most", "at_least"} & r.keys()]
    parts.append(table("what, for comparison | ratio of | measured:", free))
    return (
        "\n".join([*parts, *(f"- *{benchmark['benchmark']}*: {_machine(benchmark)}" for benchmark in benchmarks_)])
        + "\n"
    )


def _in_short(rows: Sequence[_Ratio], peers: Sequence[_Ratio]) -> str:
    """What a reader wants to know first."""

    def span(name: str) -> str:
        ratios = [row["ratio"] for row in (*rows, *peers) if row["ratio_of"] == name]
        return f"{min(ratios):.3g} to {max(ratios):.3g}"

    ghost, hooks, jax, hand = map(span, PEERS.values())
    whole = max(row["ratio"] for row in peers if row["ratio_of"] == WHOLE)
    return (
        f"**In short.** On one core a private step takes {span('dpsgd / sgd')} times as long as the fastest step of "
        f"plain SGD that we can write; at the small batches of paper B's Table XVII, {span('dplib / SGD')} times. "
        f"[On a GPU](gpu.md) the order may be another. Beside it Opacus takes {ghost} times as long with ghost "
        f"clipping, and {hooks} times with its hooks; jax-privacy takes {jax} times as long in small pieces, and "
        f"{whole:.3g} times as it is, where that was timed. A step written by hand in JAX, for dense networks alone, "
        f"takes {hand} times as long.\n"
    )


def _beside(peers: Sequence[_Ratio]) -> str:
    """Other libraries, a row for each network and batch size."""
    cells = {(row["what"].removesuffix(", one core"), row["ratio_of"]): f"{row['ratio']:.3g}" for row in peers}
    lines = [
        [what, *(cells.get((what, of), "–") for of in PEERS.values())]
        for what in dict.fromkeys(what for what, _ in cells)
    ]
    head = " | ".join(["times as long as our step", *(f"{name}:" for name in PEERS)])
    return table(head, lines)


# ---- what five seeds can see ----

SEEN = 0.1  # points of accuracy: the difference whose seeds are counted


def comparisons() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, and test accuracies in % of two methods on the same seeds, of shape (seeds,) each; chapters 0, 4, 11."""
    halves = plans.load("00", "published").read("curves")
    whole, tenth = (diverged.accuracies(halves[name][1.0], "test") for name in ("all records", "a tenth of them"))
    yield "MNIST, ε = 1: 60,000 records, 6,000 (chapter 0)", whole, tenth
    pair = plans.load("04", "published").read("mnist")
    for epsilon in (1.09, 2.11):
        both = (diverged.accuracies(cells[epsilon], "test") for cells in pair.values())
        yield f"MNIST, ε = {epsilon}: small and large perceptron (chapter 4)", *both
    for name, arms in plans.load("11", "published").read("table_1").items():
        accuracy = {arm: 100 * np.array([run["accuracy"] for run in results]) for arm, results in arms.items()}
        for arm, title in {"ours": "annealed", "dpsgd_auto_s": "AUTO-S", "dpsgd": "ReLU"}.items():
            images = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}[name]
            yield f"{images}, ε = 3: {title}, tanh (chapter 11)", accuracy[arm], accuracy["dpsgd_tanh"]


def needed(spread: float, difference: float = SEEN) -> int:
    """The fewest seeds that find ``difference`` with 80% power where paired differences have this ``spread``."""
    return 2 + bisect_left(range(2, 10_000), -difference, key=lambda n: -spread * stats.visible_difference(n))


def seeds() -> str:
    """One row a comparison: spreads of single runs and of paired differences, and what as many seeds can see."""
    lines = []
    for name, a, b in comparisons():
        spread, n = np.std(a - b, ddof=1), len(a)
        sees, margin = spread * stats.visible_difference(n), spread * stats.provable_margin(n)
        alone = f"{np.std(a, ddof=1):.2f}, {np.std(b, ddof=1):.2f}"
        lines.append([name, alone, *(f"{x:.2f}" for x in (spread, sees, margin)), needed(spread)])
    return table("comparison | one run | pair: | sees: | equal within: | seeds for 0.1:", lines)


# ---- what needs a GPU ----


def gpu_data(study: str) -> list[str]:
    """The data sets of a study's runs on a GPU, as far as its plan "paper" knows them."""
    plan = plans.load(study, "paper")
    lines = [line for line in plan.reached() if line["device"] == "cuda"]
    wanted = [runs.identity(*run) for run in plan.missing() if run.device == "cuda"]
    return sorted({name for line in [*lines, *wanted] for name in line["data"]})


def gpu(claims: Sequence[Claim]) -> str:
    """The studies with a part on a GPU: the rows that it would decide, its data, its hours."""
    lines = []
    for study, rows in plans.routes(claims).items():
        about, chapter = plans.on_gpu(study), sources.resolve(study)
        ids = ", ".join(
            f"`{row}`" + (f" ({len(claims_)})" if "*" in row else "") for row, claims_ in rows.items() if claims_
        )
        link = f"[{sources.shown_number(chapter)}](../notebooks/{chapter})"
        lines.append([link, ids or "none is open", ", ".join(gpu_data(study)), f"{about.hours:g}", about.how])
    return table("chapter | rows that it would decide | data | GPU-hours: | reckoned by", lines)


GPU_UNMEASURED = "Nobody has measured any of it on a GPU yet.\n"


def gpu_measured(results: Path = RESULTS) -> str:
    """What first light measured on a GPU (``python -m book gpu --write``), or that nobody has."""
    path = results / "gpu.json"
    if not path.exists():
        return GPU_UNMEASURED
    facts = files.checked(path, dict[str, dict[str, dict[str, Any]]])
    start, speed = facts["machine"]["start-up"], facts.get("speed", {})
    versions = f"PyTorch {start['torch']}, CUDA {start.get('cuda')}, cuDNN {start.get('cudnn')}"
    parts = [f"One {start['gpu']}, {versions}, commit `{start['commit'] or 'unknown'}`.\n"]
    rows = [
        [name, side, _shown(of.get("steps_a_second"), ",.0f"), _shown(of.get("peak_memory_bytes"), ",.2f", 2**30)]
        for name, case in speed.items()
        for side, of in case.get("sides", {}).items()
    ]
    parts.append(table("network, batch | | steps a second: | GiB:", rows))
    if together := speed.get("processes", {}).get("steps_a_second"):
        rows = [[count, f"{rate:,.0f}"] for count, rate in together.items()]
        parts.append(table("processes, the CNN | steps a second of all:", rows))
    if many := speed.get("many", {}).get("model_steps_a_second"):
        rows = [[how, f"{rate:,.0f}"] for how, rate in many.items()]
        parts.append(table(f"{speed['many']['models']} trainings of the CNN | steps a second of all:", rows))
    if crossing := speed.get("crossing"):
        step, core = crossing["device_step_seconds"], crossing["core_operations_a_second"]
        equal, begins = f"{step * core:.2g}", f"{start['first_step_seconds']:.2g}"
        parts.append(
            f"A step takes {1000 * step:.2g} ms at least, and a core of that machine does {core:.2g} operations a "
            f"second: steps of {equal} operations take both equally long. The first step is made {begins} s after "
            "PyTorch is there.\n"
        )
    return "\n".join(parts)


def _shown(value: float | None, shape: str, unit: float = 1.0) -> str:
    return "–" if value is None else format(value / unit, shape)
