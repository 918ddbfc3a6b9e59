"""Debian's Chromium, and pages to open in it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

PATH = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own, which is thrown away."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def process(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """`chary` with these arguments, which is killed when it is no longer needed."""
    command = [sys.executable, "-m", "chary", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def watched(folder: Path) -> Iterator[str]:
    """The address of `chary watch`."""
    with process("watch", folder, "--no-open") as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()


def zoom(page: Page, figure: str) -> Any:
    """Drag over a part of a figure, and return the range that it then shows."""
    place = page.locator(f"#{figure} .nsewdrag")
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.2 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=5)
    page.mouse.up()
    until(page, zoomed(figure))
    return page.evaluate(f"document.getElementById('{figure}').layout.xaxis.range")


def zoomed(figure: str) -> str:
    """Whether a figure shows only a part, as an expression."""
    return f"document.getElementById('{figure}').layout.xaxis.autorange === false"


def until(page: Page, expression: str, *, seconds: float = 180.0) -> Any:
    """Wait until this is true on the page, and return what it is.

    Playwright's own way evaluates strings inside the page, which the live page's policy forbids.
    """
    end = monotonic() + seconds
    while not (found := page.evaluate(expression)):
        assert monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(50)
    return found
