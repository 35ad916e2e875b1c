"""How soon does a page of the built site answer, from disk, on a machine at a quarter of this one's speed?

    python tests/benchmarks/bench_pages.py [--output book/results/bench_pages.json] [--rounds 5] [PAGE ...]

Every page is opened ROUNDS times in headless Chromium, in turn, each time in a new context, with the processor slowed
four times (Emulation.setCPUThrottlingRate). A page answers when its first content is painted, its document is read, its
scripts have run and no task of more than 50 ms is left to come: from then on a click or a key waits for nothing. The
median over the rounds counts. Nothing else should run meanwhile; no test depends on it.
"""

import argparse
import json
import os
import shutil
import statistics
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from dplib import runs
from dplib.claims import ROOT

SITE = ROOT / "_build" / "html"
SLOWER, LIMIT, ROUNDS, QUIET = 4, 1.5, 5, 2000  # times, seconds, rounds, milliseconds without a long task
OBSERVE = """window.longTasks = [];
new PerformanceObserver(list => list.getEntries().forEach(task => longTasks.push(task.startTime + task.duration)))
    .observe({type: 'longtask', buffered: true});"""
QUIET_SINCE = f"""() => document.readyState === 'complete'
    && performance.getEntriesByName('first-contentful-paint').length
    && performance.now() - Math.max(...longTasks, performance.timing.loadEventEnd - performance.timeOrigin) > {QUIET}"""
ANSWERS = """() => Math.max(...longTasks, performance.getEntriesByName('first-contentful-paint')[0].startTime,
    performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd) / 1000"""


def seconds(browser: Browser, page: Path) -> float:
    """Seconds from the start of the navigation until the page answers."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    tab.add_init_script(OBSERVE)
    context.new_cdp_session(tab).send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    tab.goto(page.as_uri(), timeout=120_000)
    tab.wait_for_function(QUIET_SINCE, timeout=120_000)
    found = tab.evaluate(ANSWERS)
    context.close()
    return found


def row(what: str, measured: float) -> dict:
    """A row of the benchmarks' page."""
    return {
        "what": f"{what}, from disk, processor slowed {SLOWER} times",
        "ratio_of": "seconds until it answers / 1 second",
        "ratio": measured,
        "at_most": LIMIT,
        "met": measured <= LIMIT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="such as book/ledger.html; all of them by default")
    parser.add_argument("--output", type=Path, default=Path("book/results/bench_pages.json"))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium or not (SITE / "index.html").exists():
        print("Pages are not timed: this needs Chromium and the built site (make book).")
        return
    every = [path for folder in ("book", "notebooks") for path in sorted((SITE / folder).glob("*.html"))]
    names = options.pages or [path.relative_to(SITE).as_posix() for path in every]
    times: dict[str, list[float]] = {name: [] for name in names}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        version = browser.version
        seconds(browser, SITE / names[0])  # starting the first renderer is not the page's
        for _ in range(options.rounds):
            for name in names:
                times[name].append(seconds(browser, SITE / name))
        browser.close()
    medians = {name: round(statistics.median(found), 3) for name, found in times.items()}
    for name, median in sorted(medians.items(), key=lambda item: -item[1]):
        print(f"{median:6.2f} s  {name}  ({min(times[name]):.2f} to {max(times[name]):.2f})")
    if options.pages:  # a look at some pages is not the benchmark
        return
    slowest = max((name for name in names if name.startswith("notebooks/")), key=medians.get)
    named = {"slowest chapter": slowest, "ledger": "book/ledger.html", "landing page": "book/intro.html"}
    result = {
        "benchmark": "pages",
        "rows": [row(what, medians[name]) for what, name in named.items()],
        "seconds": medians,
        "slowest_chapter": slowest,
        "rounds": options.rounds,
        "load_average": os.getloadavg()[0],
        "hardware": runs.hardware(),
        "versions": {"chromium": version},
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
