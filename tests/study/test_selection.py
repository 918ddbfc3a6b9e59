"""How well scores rank policies, against the truth."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from chary.algos.msg_config import MSGConfig
from chary.study.selection import SCORES, candidate_cells, regret, regret_at_random, spearman
from chary.tune import select as selecting
from tests.conftest import call_chary
from tests.study.test_study import TINY, without_workers

TRUTHS = np.array([0.1, 0.9, 0.4, 0.4])


def test_spearman_is_the_correlation_of_ranks() -> None:
    scores = [[1.0, 40.0, 2.0, 2.0], -TRUTHS, [-np.inf, 3.0, 2.0, 1.0], np.zeros(4)]
    found = spearman(np.array(scores), np.tile(TRUTHS, (4, 1)))
    assert found == pytest.approx([1.0, -1.0, 0.9486833, 0.0])


def test_regret_is_what_the_first_few_lose() -> None:
    scores = np.array([4.0, 1.0, 3.0, 2.0])
    several = np.stack([TRUTHS, TRUTHS[::-1]])
    assert regret(scores, several, 1) == pytest.approx([0.8, 0.5])
    assert regret(scores, several, 3) == pytest.approx([0.5, 0.0])
    assert regret(np.zeros(4), several, 1) == pytest.approx([0.8, 0.5])  # the one placed first


@pytest.mark.parametrize("first", [1, 2, 3, 9])
def test_choosing_at_random_is_the_mean_over_all_choices(first: int) -> None:
    choices = combinations(TRUTHS, min(first, len(TRUTHS)))
    expected = np.mean([TRUTHS.max() - max(choice) for choice in choices])
    assert regret_at_random(TRUTHS[None], first) == pytest.approx([expected])


def test_candidates_share_a_discount_and_the_presets_pair_is_one_of_them() -> None:
    config = MSGConfig(beta=-4.0, alpha=0.1, discount=0.97)
    cells = candidate_cells(
        config, "small", "x", betas=(-4.0, 0.0), alphas=(0.1,), others=("iql", "bc")
    )
    assert [cell.name for cell in cells] == ["msg", "beta0-alpha0.1", "iql", "bc"]
    assert [cell.changes.get("discount") for cell in cells] == [0.97, 0.97, 0.97, None]
    assert [cell.algorithm for cell in cells] == ["msg", "msg", "iql", "bc"]


@pytest.mark.long
def test_the_study_as_a_command(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["study", "selection", "--dataset", maze_file, "--seeds", 0, "--steps", 30, *TINY]
    words += ["--others", "--betas", 0, "--alphas", 0.1, "--runs", tmp_path / "runs"]
    words = [str(word) for word in (*words, "--out", tmp_path)]
    without_workers(monkeypatch, words)
    monkeypatch.setattr(selecting, "LEAST_STEPS", 8)
    result = call_chary(*words)
    assert result.returncode == 0, result.stderr
    assert "regret@3" in result.stdout and "at random" in result.stdout

    (numbers,) = tmp_path.glob("study-selection-*.json")
    found = json.loads(numbers.read_text())
    assert [row["score"] for row in found["rows"]] == [*SCORES, "preset", "random"]
    (ranked,) = found["ranked"]
    names = {"msg", "beta0-alpha0.1"}
    assert {candidate["name"] for candidate in ranked["candidates"]} == names
    for candidate in ranked["candidates"]:
        evals = tmp_path / "runs" / f"{candidate['name']}-seed0" / "evals.jsonl"
        last = json.loads(evals.read_text().splitlines()[-1])
        assert candidate["truth"] == np.mean(last["successes"])
    for row in found["rows"][:-2]:
        assert row["regret3"] == 0.0  # there are two
        assert row["spearman_low"] <= row["spearman_high"]
    page = numbers.with_suffix(".md").read_text()
    assert "chary study selection --dataset" in page and "In truth the best: " in page
    assert str(tmp_path / "runs") not in ranked["sentence"]
    most = max(candidate["truth"] for candidate in ranked["candidates"])
    assert ranked["best"] == [c["name"] for c in ranked["candidates"] if c["truth"] == most]
    assert numbers.with_suffix(".png").stat().st_size > 20_000


def test_without_held_out_episodes_nothing_is_trained(maze_file: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    result = call_chary(
        "study", "selection", "--dataset", maze_file, "--holdout", 0, "--runs", runs
    )
    assert result.returncode == 2 and "--holdout is 0.0" in result.stderr
    assert not runs.exists()
