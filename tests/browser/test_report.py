"""The report as a reader has it: opened from disk, without a network, and used."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from chary.report.page import write_report
from chary.report.page_data import page_data
from chary.report.selection import read_selections
from chary.report.story import read_runs
from chary.runs.folder import RunFolder
from tests.browser.chromium import until, zoom, zoomed
from tests.report.test_selection import FOUND, written
from tests.synthetic import acting_run, synthetic_run

NASTY = "<img src=x onerror=window.pwned=1>"
NASTIER = "</script><script>window.pwned = 1</script>"


def report_of(runs: Path) -> Path:
    path = runs.with_suffix(".html")
    write_report(page_data(*read_runs([runs])), path)
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two settings in two seeds each, the first with better scores."""
    runs = tmp_path_factory.mktemp("small") / "runs"
    for members, seed in ((8, 0), (8, 1), (4, 2), (4, 3)):
        run = synthetic_run(
            runs / f"{members}-{seed}",
            seed=seed,
            lines=30,
            evaluations=4,
            settings={"members": members},
        )
        run.append(
            "evals",
            {
                "step": 3_000,
                "score": float(members),
                "return": float(members),
                "returns": [members],
            },
        )
    return report_of(runs)


def open_offline(page: Page, path: Path) -> None:
    """Open a file in a browser that reaches nothing else; it fails if the page as much as tries."""
    elsewhere: list[str] = []
    page.on("request", lambda request: elsewhere.append(request.url))
    page.context.set_offline(True)
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-painted]")
    assert [url for url in elsewhere if not url.startswith(("file:", "data:", "blob:"))] == []


def column(page: Page, table: str, number: int) -> list[str]:
    return page.locator(f"#{table} tbody tr td:nth-child({number})").all_text_contents()


@pytest.mark.parametrize("width", [1280, 390])
def test_everything_is_words_and_fits(page: Page, report: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    open_offline(page, report)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    text = page.locator("body").inner_text()
    for slip in ("[object", "undefined", "NaN", "null"):
        assert slip not in text
    expect(page.locator("#reproduction dt").first).to_have_text("chary")


def test_a_click_on_a_heading_sorts_the_table(page: Page, report: Path) -> None:
    open_offline(page, report)
    heading = page.locator("#groups th", has_text="last")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    down = column(page, "groups", 2)
    assert down == ["members 8", "members 4"]
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    assert column(page, "groups", 2) == down[::-1]


def test_a_click_on_the_legend_hides_a_curve_and_brings_it_back(page: Page, report: Path) -> None:
    open_offline(page, report)
    hidden = (
        "document.getElementById('curves').data.filter((t) => t.visible === 'legendonly').length"
    )
    drawn = page.locator("#curves .scatterlayer .trace")
    before = drawn.count()
    entry = page.locator("#curves .legendtoggle").first
    entry.click()
    until(page, f"{hidden} > 0")
    assert 0 < drawn.count() < before
    entry.click()
    until(page, f"{hidden} === 0")
    assert drawn.count() == before


@pytest.mark.parametrize(
    ("figure", "menu", "other"), [("curves", "quantity", "return"), ("disagreement", "run", "8-1")]
)
def test_what_is_chosen_after_a_zoom_is_shown_whole(
    page: Page, report: Path, figure: str, menu: str, other: str
) -> None:
    open_offline(page, report)
    zoom(page, figure)
    page.locator(f"#{menu}").select_option(other)
    until(page, f"!({zoomed(figure)})")


def test_the_slider_goes_through_training(page: Page, report: Path) -> None:
    open_offline(page, report)

    def heat() -> Any:
        return page.evaluate("document.getElementById('map-std').data[0].z")

    slider, step = page.locator("#frame"), page.locator("#frame-step")
    expect(step).to_have_text("step 3,000")
    newest = heat()
    slider.press("ArrowLeft")
    expect(step).to_have_text("step 2,250")
    assert heat() != newest
    slider.press("End")
    expect(step).to_have_text("step 3,000")
    assert heat() == newest


@pytest.mark.parametrize("figure", ["bandit", "maximum"])
def test_policies_are_chosen_among_a_methods_runs_or_an_algorithms(
    page: Page, report: Path, figure: str
) -> None:
    open_offline(page, report)
    place = f"document.getElementById('{figure}')"
    names = f"{place}.data.filter((each) => each.showlegend !== false).map((each) => each.name)"
    assert page.evaluate(names) == ["msg (members 8)", "msg (members 4)"]
    page.locator("#budget-view").select_option("algorithm")
    until(page, f"{names}.join() === 'msg'")
    page.evaluate(f"Plotly.Fx.hover({place}, [{{curveNumber: 1, pointNumber: 3}}])")
    words = {"bandit": "after 3 episodes, of 4 policies: ", "maximum": "best of 4 of 4 policies: 8"}
    expect(page.locator(f"#{figure} .hoverlayer")).to_contain_text(words[figure])


def test_a_single_policy_is_no_choice(page: Page, tmp_path: Path) -> None:
    synthetic_run(tmp_path / "runs" / "alone", lines=3, evaluations=2)
    open_offline(page, report_of(tmp_path / "runs"))
    expect(page.locator("#budget p")).to_contain_text("only one policy was evaluated")
    assert page.locator("#budget .plot").count() == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_the_verdict_of_select_is_words_and_a_table(page: Page, tmp_path: Path, width: int) -> None:
    runs = written(tmp_path / "runs")
    synthetic_run(runs / "a", lines=3, evaluations=2)
    write_report(page_data(*read_runs([runs]), read_selections([runs])[0]), tmp_path / "page.html")
    page.set_viewport_size({"width": width, "height": 900})
    open_offline(page, tmp_path / "page.html")
    section = page.locator("#selection")
    expect(section).to_contain_text(FOUND["sentence"])
    assert section.locator("tbody tr td:nth-child(1)").all_text_contents() == ["a", "<b>"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_learning_in_the_task_is_a_sentence_curves_and_maps(
    page: Page, tmp_path: Path, width: int
) -> None:
    acting_run(tmp_path / "runs" / "maze")
    elsewhere = acting_run(tmp_path / "runs" / "return", success=False, dataset="elsewhere")
    described = {**elsewhere.config["dataset"], "fingerprint": "1" * 64}
    elsewhere.write_config({**elsewhere.config, "dataset": described})
    elsewhere.write_data({**elsewhere.data(), "maze": None})
    page.set_viewport_size({"width": width, "height": 900})
    open_offline(page, report_of(tmp_path / "runs"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator("#online-results li").first).to_contain_text("maze: Success went from 0%")
    for figure in ("online-curve", "online-explore", "curves", "disagreement"):
        expect(page.locator(f"#{figure} .xtitle")).to_have_text("environment steps")
    names = "document.getElementById('online-curve').data.map((each) => each.name).join()"
    assert page.evaluate(names) == "guard up,acted, mean of 20,evaluated"
    dots = "document.getElementById('online-map-3').data[1].x.length"
    assert page.evaluate(dots) == 750
    expect(page.locator("#online-maps b").first).to_have_text("Steps 1 to 750")
    page.locator("#online-run").select_option("return")
    expect(page.locator("#online-curve .ytitle")).to_have_text("return")
    expect(page.locator("#online-maps")).to_be_hidden()


def test_what_a_run_is_called_is_shown_and_never_run(page: Page, tmp_path: Path) -> None:
    for number in (1, 2):
        run = synthetic_run(
            tmp_path / "runs" / f"{NASTY}{number}",
            lines=3,
            evaluations=2,
            dataset=NASTIER,
            algorithm=NASTY,
            settings={"ensemble": f"{NASTIER}{number}"},
        )
        run.write_config({**run.config, "command": NASTIER, "versions": {NASTY: NASTIER}})
        (run.path / NASTY).write_text("a foreign file")
    open_offline(page, report_of(tmp_path / "runs"))
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0
    text = page.locator("body").inner_text()
    assert text.count(NASTY) >= 4 and text.count(NASTIER) >= 4
    expect(page.locator("#curves .legendtext").first).to_contain_text(NASTIER)


def test_torn_and_foreign_files_cost_a_warning_each(page: Page, tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "runs" / "torn", lines=10, evaluations=3)
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 1100, "critic/')
    (run.path / "diagnostics" / "333.npz").write_bytes(b"PK\x03\x04 torn")
    (run.path / "notes.txt").write_text("mine")
    (tmp_path / "runs" / "foreign").mkdir()
    (tmp_path / "runs" / "foreign" / "config.json").write_text("{")
    open_offline(page, report_of(tmp_path / "runs"))
    warned = page.locator("#warnings li").all_text_contents()
    assert len(warned) == 4
    for name in ("metrics.jsonl", "333.npz", "notes.txt", "foreign/config.json"):
        assert sum(name in line for line in warned) == 1
    expect(page.locator("#curves .scatterlayer .trace")).to_have_count(1)


def test_twenty_long_runs_are_ready_soon(page: Page, tmp_path: Path) -> None:
    """Ready is: tables filled, what is in view painted, clicks answered. The best of a few openings,
    since other work on the machine stretches them."""
    first = synthetic_run(tmp_path / "runs" / "0", lines=1_000)
    for seed in range(1, 20):
        shutil.copytree(first.path, tmp_path / "runs" / str(seed))
        settings = {**first.config["settings"], "members": 4 * (1 + seed % 4)}
        other = {"settings": settings, "run": {**first.config["run"], "seed": seed}}
        RunFolder.create(tmp_path / "runs" / str(seed), {**first.config, **other})
    path = report_of(tmp_path / "runs")
    assert path.stat().st_size < 8e6
    milliseconds: list[float] = []
    for _ in range(3):
        open_offline(page, path)
        milliseconds.append(page.evaluate("performance.getEntriesByName('ready')[0].startTime"))
    assert min(milliseconds) < 2_000
    figures = page.locator(".plot")
    assert figures.count() > 10
    expect(page.locator(".plot.js-plotly-plot")).to_have_count(figures.count())
