"""The live page, beside runs that really train."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.chromium import process, until, watched, zoom
from tests.cli.test_program import train_command
from tests.synthetic import synthetic_run

STEP = """Number(document.querySelector("#runs tbody td:nth-child(3)")
  ?.textContent.split(" ")[0].replaceAll(",", ""))"""
DRAWN = "(document.getElementById('curves')?.data?.[0]?.x ?? [])"
HIDDEN = "document.getElementById('curves').data.some((each) => each.visible === 'legendonly')"


def step_beyond(page: Page, step: int) -> int:
    """Wait until the table shows a later step than this."""
    until(page, f"{STEP} > {step}")
    return page.evaluate(STEP)


def test_a_run_is_followed_while_it_trains_is_killed_and_resumed(
    page: Page, maze_file: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    endless = [
        "--steps", 10_000_000, "--log-every", 20, "--eval-every", 400, "--eval-episodes", 1,
        "--checkpoint-minutes", 0.01,
    ]  # fmt: skip
    with watched(runs) as address:
        page.goto(address)
        expect(page.locator("#progress")).to_contain_text("no runs in this folder yet")
        with process(*train_command("msg", maze_file, runs / "a", *endless)) as training:
            first = step_beyond(page, 0)
            expect(page.locator("#runs")).to_contain_text("training")
            expect(page.locator("#runs td:nth-child(4)")).to_have_text(
                re.compile(r"\d")
            )  # time left
            page.locator("#quantity").select_option("log:critic/td")
            points = page.evaluate(DRAWN)
            step_beyond(page, first)
            until(page, f"{DRAWN}.length > {len(points)}")
            # The critics were asked, and what they said is drawn.
            page.wait_for_selector("#disagreement .scatterlayer .trace", timeout=180_000)
            training.kill()
            training.wait()
        killed = step_beyond(page, 0)
        with process("resume", runs / "a"):
            step_beyond(page, killed)
            drawn = page.evaluate(DRAWN)
        assert drawn == sorted(set(drawn))  # what was cut back is not drawn twice
        assert page.locator("#quantity").input_value() == "log:critic/td"
        page.goto("about:blank")  # before the server goes, which the page would complain about


def test_runs_that_appear_and_go_and_a_server_that_stops(
    page: Page, complaints: list[str], tmp_path: Path
) -> None:
    nasty = "<img src=x onerror=window.pwned=1>"
    runs = tmp_path / "runs"
    synthetic_run(runs / "a", lines=5, evaluations=2)
    names = page.locator("#runs td.name")
    with watched(runs) as address:
        page.goto(address)
        expect(names).to_have_text(["a"])
        synthetic_run(runs / nasty, lines=5, evaluations=2, seed=1, settings={"members": 4})
        expect(names).to_have_text([nasty, "a"])
        expect(page.locator("#curves .legendtext")).to_have_count(2)
        page.locator("#curves .legendtoggle").first.click()
        until(page, HIDDEN)
        with open(runs / "a" / "timing.jsonl", "a") as file:
            file.write("{")
        expect(page.locator("#warnings li")).to_have_count(1)
        expect(page.locator("#warnings li")).to_contain_text("a: timing.jsonl")
        (runs / "a").rename(tmp_path / "elsewhere")
        expect(names).to_have_text([nasty])
        assert page.evaluate("window.pwned") is None and page.locator("img").count() == 0
        assert complaints == []
    expect(page.locator("#pulse")).to_contain_text("no answer")
    expect(names).to_have_text([nasty])
    complaints.clear()  # the browser itself notes that nobody answered


def test_what_was_zoomed_and_hidden_stays_so_when_news_arrives(page: Page, tmp_path: Path) -> None:
    synthetic_run(tmp_path / "runs" / "a", lines=5, evaluations=4)
    other = synthetic_run(tmp_path / "runs" / "b", lines=5, evaluations=4, settings={"members": 4})
    with watched(tmp_path / "runs") as address:
        page.goto(address)
        page.locator("#curves .legendtoggle").first.click()
        until(page, HIDDEN)
        part = zoom(page, "curves")
        shown = "Math.max(...document.getElementById('curves').data.flatMap((each) => each.x))"
        newest = page.evaluate(shown)
        later = {"step": newest + 50, "score": 1.0, "return": 1.0, "returns": [1.0]}
        other.append("evals", later)
        until(page, f"{shown} === {newest + 50}")
        assert page.evaluate("document.getElementById('curves').layout.xaxis.range") == part
        assert page.evaluate(HIDDEN)
