"""Pictures of the pages: python -m tests.browser.pictures RUNS --out FOLDER

A report and a live page of the runs, as wide as a desk's screen and a telephone's, light and dark.
"""

import itertools
from pathlib import Path
from typing import Annotated

import tyro
from playwright.sync_api import Page

from chary.report.page import write_report
from chary.report.page_data import page_data
from chary.report.story import read_runs
from tests.browser.chromium import chromium, watched

WIDTHS = {"desktop": 1280, "phone": 390}


def main(
    runs: Annotated[Path, tyro.conf.Positional], /, out: Path = Path("pictures"), whole: bool = True
) -> None:
    """Write every picture, and a word on each.

    Args:
        runs: Folder of runs.
        out: Where the pictures go.
        whole: Whole pages, or what a screen shows of them at first.
    """
    out.mkdir(parents=True, exist_ok=True)
    report = out / "report.html"
    write_report(page_data(*read_runs([runs])), report)
    with chromium() as browser, watched(runs) as live:
        pages = {"report": report.resolve().as_uri(), "watch": live}
        for (name, address), (screen, width), theme in itertools.product(
            pages.items(), WIDTHS.items(), ("light", "dark")
        ):
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=theme
            )
            page = context.new_page()
            page.on("console", lambda message: print(message.type, message.text))
            page.on("pageerror", lambda error: print(error))
            page.goto(address)
            take(page, out / f"{name}-{screen}-{theme}.png", whole)
            context.close()


def take(page: Page, path: Path, whole: bool) -> None:
    """A page, once it is drawn."""
    page.wait_for_selector("body[data-painted]")
    page.screenshot(path=path, full_page=whole)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    ready = page.evaluate("performance.getEntriesByName('ready')[0].startTime")
    print(f"{path}: ready in {ready / 1000:.2f} s{f', {wide} pixels too wide' if wide > 0 else ''}")


if __name__ == "__main__":
    tyro.cli(main)
