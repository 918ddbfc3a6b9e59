"""The heating example in miniature: from a messy log to a policy whose doubt is in the right place."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chary
from chary.cli import main
from chary.data.scaling import standard_rewards, uneven_scales
from chary.report.statistics import area_under_roc

ROOT = Path(__file__).parents[2]
HEATING = ROOT / "examples" / "heating"


@pytest.fixture(scope="module")
def example() -> Iterator[tuple[Any, Any]]:
    """The modules `house` and `measure`."""
    sys.path.insert(0, str(HEATING))
    import house
    import measure

    yield house, measure
    sys.path.remove(str(HEATING))


@pytest.fixture(scope="module")
def log(example: tuple[Any, Any]) -> Any:
    """The whole log."""
    return example[0].make_log()


def test_the_log_is_as_large_and_as_messy_as_it_says(
    example: tuple[Any, Any], log: Any, tmp_path: Path
) -> None:
    house, _ = example
    assert len(log.rewards) == 20_064 and log.episodes[-1] == 208
    assert (np.bincount(log.episodes) == 96).all()
    assert log.powers.min() >= 0.0 and log.powers.max() <= 4000.0
    house.write_csv(log, tmp_path / "heating.csv")
    lines = (tmp_path / "heating.csv").read_text().splitlines()
    heading = lines[0].split(",")
    assert len(lines) == 20_065 and "firmware" in heading
    readings = [line.split(",")[2:7] for line in lines[1:]]
    assert 40 < sum("" in row for row in readings) < 160


def test_the_page_says_what_the_log_holds_and_what_was_measured(
    example: tuple[Any, Any],
    log: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house, measure = example
    path = tmp_path / "heating.csv"
    house.write_csv(log, path)
    page = (ROOT / "docs" / "heating.md").read_text()
    assert f"{log.episodes[-1] + 1} times 24 hours, {len(log.rewards):,} rows" in page
    low, high = log.observations.min(axis=0), log.observations.max(axis=0)
    spans = [f"{least:.0f} to {most:.0f}" for least, most in zip(low, high, strict=True)]
    spans[4] = f"{low[4]:.0f} to {high[4]:.2f}"
    assert f"| degrees C | {spans[0]}, {spans[1]} |" in page
    for name, span in zip(house.COLUMNS[2:], spans[2:], strict=True):
        assert re.search(rf"\| `{name}` \|[^|]*\| {re.escape(span)} \|", page), (name, span)
    command = re.search(
        r"chary (data import heating\.csv .*?)\n    chary data check", page, re.DOTALL
    )
    assert command is not None
    words = [word.strip("'") for word in command[1].replace("\\\n", " ").split()]
    monkeypatch.chdir(path.parent)
    assert main(words) == 0
    told = capsys.readouterr().err.splitlines()
    said = [
        line.strip() for line in page.splitlines() if line.startswith("    chary: heating.csv:")
    ]
    assert len(said) == 2 and set(said) <= set(told)
    train, _ = measure.read(path)
    reward = standard_rewards(train)
    assert f"learning sees {reward.scale:g} * (reward {reward.shift:+g})" in page
    measured = [
        json.loads(line) for line in (ROOT / "results" / "heating.jsonl").read_text().splitlines()
    ]
    logged = f"{log.rewards.sum() / (log.episodes[-1] + 1):.2f}"
    for run in measured:
        assert f"{run['log_return']:.2f}" == logged
        assert (
            f"| {run['seed']} | {min(run['auc'].values()):.4f} | {run['flagged']:.1%} | "
            f"{run['return']:.2f} | {logged} |"
        ) in page
    assert len(re.findall(r"^\| \d \|", page, re.MULTILINE)) == len(measured)


def test_no_transition_spans_a_missing_reading(example: tuple[Any, Any], tmp_path: Path) -> None:
    house, measure = example
    house.write_csv(house.make_log(30), tmp_path / "heating.csv")
    train, held_out = measure.read(tmp_path / "heating.csv", held_out=10)
    for part in (train, held_out):
        # A quarter of an hour later, or across midnight.
        hours = (part.next_observations[:, 4] - part.observations[:, 4]) % 24.0
        assert set(hours.tolist()) == {0.25}
    assert uneven_scales(train.observations) is not None


@pytest.mark.long
def test_doubt_grows_off_the_data_in_physical_units(
    example: tuple[Any, Any], tmp_path: Path
) -> None:
    house, measure = example
    house.write_csv(house.make_log(40), tmp_path / "heating.csv")
    train, held_out = measure.read(tmp_path / "heating.csv", held_out=10)
    agent = chary.train(
        "msg", train, run=tmp_path / "run", hidden=(32, 32), steps=600, warmup_steps=100
    )
    near = measure.doubt(agent, held_out.observations)
    found = {
        kind: area_under_roc(measure.doubt(agent, rows), near)
        for kind, rows in measure.far_states(held_out.observations)
    }
    assert len(found) == 8
    assert min(found.values()) > 0.9, found
