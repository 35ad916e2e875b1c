"""How soon does a page of the built site answer, from disk, on a machine at a quarter of this one's speed?

    python tests/benchmarks/bench_pages.py [--rounds 5] [PAGE ...]

A tab of headless Chromium shows the book, with the processor slowed four times (Emulation.setCPUThrottlingRate), and
follows an address to every page once; to the slowest pages, the landing page and the ledger then ROUNDS times more, in
turn, of which the median counts. A page answers when its first content is painted, its document is read, its scripts
have run, and no task of more than 50 ms is left to come: from then on a click or a key waits for nothing. The first
page that a browser opens takes longer; the last line is the landing page in a new context each time. It prints seconds
and no file: the book publishes ratios alone. Nothing else should run meanwhile; no test depends on it.
"""

import argparse
import statistics
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from dplib.claims import ROOT
from dplib.execution import RunError
from press import pdf

SITE = ROOT / "_build" / "html"
SLOWER, LIMIT, ROUNDS, QUIET = 4, 1.5, 5, 1500  # times, seconds, rounds, milliseconds without a long task
SLOWEST = 4  # pages that are looked at again
ALWAYS = ("book/intro.html", "book/ledger.html")
OBSERVE = """window.longTasks = [];
new PerformanceObserver(list => list.getEntries().forEach(task => longTasks.push(task.startTime + task.duration)))
    .observe({type: 'longtask', buffered: true});"""
QUIET_SINCE = f"""() => document.readyState === 'complete'
    && performance.getEntriesByName('first-contentful-paint').length
    && performance.now() - Math.max(...longTasks, performance.timing.loadEventEnd - performance.timeOrigin) > {QUIET}"""
ANSWERS = """() => Math.max(...longTasks, performance.getEntriesByName('first-contentful-paint')[0].startTime,
    performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd) / 1000"""


def tab_of(browser: Browser) -> Page:
    """A new tab in a context of its own, slowed down."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    tab.set_default_timeout(120_000)
    tab.add_init_script(OBSERVE)
    context.new_cdp_session(tab).send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    return tab


def seconds(tab: Page, page: Path) -> float:
    """Seconds from the start of the navigation until the page answers."""
    tab.goto(page.as_uri())
    tab.wait_for_function(QUIET_SINCE)
    return tab.evaluate(ANSWERS)


def first_time(browser: Browser, page: Path) -> float:
    """The same in a new context."""
    tab = tab_of(browser)
    found = seconds(tab, page)
    tab.context.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="such as book/ledger.html; all of them by default")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if not (SITE / "index.html").exists():
        print("Pages are not timed: this needs the built site (make book).")
        return
    try:
        chromium = pdf.find_chromium()
    except RunError as error:
        print(f"Pages are not timed: {error}")
        return
    every = [path for folder in ("book", "notebooks") for path in sorted((SITE / folder).glob("*.html"))]
    names = options.pages or [path.relative_to(SITE).as_posix() for path in every]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = tab_of(browser)
        seconds(tab, SITE / "book" / "intro.html")
        once = {name: seconds(tab, SITE / name) for name in names}
        again = sorted(names, key=once.get)[-SLOWEST:]
        again += [name for name in ALWAYS if name in names and name not in again]
        times: dict[str, list[float]] = {name: [] for name in again}
        for _ in range(options.rounds):
            for name in again:
                times[name].append(seconds(tab, SITE / name))
        opened = [first_time(browser, SITE / "book" / "intro.html") for _ in range(options.rounds)]
        browser.close()
    found = once | {name: statistics.median(rounds) for name, rounds in times.items()}
    for name, median in sorted(found.items(), key=lambda item: -item[1]):
        spread = f"({min(times[name]):.2f} to {max(times[name]):.2f})" if name in times else "(once)"
        print(f"{median:6.2f} s  {name}  {spread}")
    print(f"{statistics.median(opened):6.2f} s  the landing page, first of all")
    print(f"{sum(median > LIMIT for median in found.values())} of {len(found)} pages take more than {LIMIT} s.")


if __name__ == "__main__":
    main()
