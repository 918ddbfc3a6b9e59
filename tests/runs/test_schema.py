"""Files that can be read and mean nothing: each costs a warning, and nobody else's page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary.report.follow import Follower
from chary.report.page_data import page_data
from chary.report.story import read_run, read_runs
from chary.runs.folder import RunFolder
from chary.runs.schema import require_config
from tests.synthetic import synthetic_run

Damage = Callable[[RunFolder], None]
HUGE = 10**400
"""More than a float can hold; JSON has no such limit."""


def line(log: str, **changes: Any) -> Damage:
    """The log's last line with other numbers in it, and no other line."""

    def damage(folder: RunFolder) -> None:
        record = {**folder.read(log)[-1], **changes}
        (folder.path / f"{log}.jsonl").write_text(json.dumps(record) + "\n")

    return damage


def data(**changes: Any) -> Damage:
    def damage(folder: RunFolder) -> None:
        (folder.path / "data.json").write_text(json.dumps({**folder.data(), **changes}))

    return damage


def config(**changes: Any) -> Damage:
    return lambda folder: folder.write_config({**folder.config, **changes})


def arrays(**changes: Callable[[np.ndarray], np.ndarray]) -> Damage:
    """The last diagnostics with some arrays changed."""

    def damage(folder: RunFolder) -> None:
        path = folder.diagnostics()[-1]
        with np.load(path) as file:
            found = {name: file[name] for name in file}
        changed = {name: change(found[name]) for name, change in changes.items()}
        folder.save_diagnostics(int(path.stem), found | changed)

    return damage


def another_compression(folder: RunFolder) -> None:
    path = folder.diagnostics()[-1]
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"PK\x01\x02") + 10] = 99  # in the directory, of the last array
    path.write_bytes(raw)


MEANINGLESS: dict[str, tuple[str, Damage]] = {
    "timing at step 0": ("timing.jsonl", line("timing", step=0)),
    "timing beyond numbers": ("timing.jsonl", line("timing", step=HUGE)),
    "infinite speed": ("timing.jsonl", line("timing", steps_per_s=float("inf"))),
    "infinite time": ("timing.jsonl", line("timing", time=float("inf"))),
    "metrics before the start": ("metrics.jsonl", line("metrics", step=-1)),
    "metrics at step yes": ("metrics.jsonl", line("metrics", step=True)),
    "a score in words": ("evals.jsonl", line("evals", score="high")),
    "a list of scores": ("evals.jsonl", line("evals", score=[1.0])),
    "an infinite return": ("evals.jsonl", line("evals", **{"return": float("inf")})),
    "a length in words": ("evals.jsonl", line("evals", length="long")),
    "samples in words": ("evals.jsonl", line("evals", sampled={"return": "high"})),
    "samples that are a number": ("evals.jsonl", line("evals", sampled=3.0)),
    "a way of acting that is a number": ("evals.jsonl", line("evals", act=3)),
    "rewards that are a number": ("data.json", data(rewards=3.0)),
    "rewards in words": ("data.json", data(rewards={"going_on": "many", "ending": None})),
    "no histogram": ("data.json", data(returns=[])),
    "findings in words": ("data.json", data(findings=["none"])),
    "a reward transform that is a number": ("config.json", config(scaling={"reward": 3.0})),
    "settings that are a list": ("config.json", config(settings=[1])),
    "members that are missing": ("diagnostics/", arrays(values_random=lambda v: v[1:])),
    "starts of other members": ("diagnostics/", arrays(start_values=lambda v: v[1:])),
    "states that are missing": ("diagnostics/", arrays(values_data=lambda v: v[:, :0])),
    "several betas": ("diagnostics/", arrays(beta=lambda v: np.stack([v, v]))),
    "another compression": ("diagnostics/", another_compression),
}


@pytest.mark.parametrize("case", MEANINGLESS)
def test_what_means_nothing_costs_one_warning_in_report_and_watch(
    tmp_path: Path, case: str
) -> None:
    file, damage = MEANINGLESS[case]
    damage(synthetic_run(tmp_path / "bad", lines=3, evaluations=2, maze=False))
    synthetic_run(tmp_path / "good", lines=3, evaluations=2, maze=False)
    page = page_data(*read_runs([tmp_path]))
    json.dumps(page, allow_nan=False)
    assert [run["name"] for run in page["runs"]] == ["bad", "good"]
    (warning,) = page["warnings"]
    assert warning["run"] == "bad" and warning["message"].startswith(file)
    live = Follower(tmp_path).changes(0)
    json.dumps(live, allow_nan=False)
    assert live and live["names"] == ["bad", "good"] and live["warnings"] == page["warnings"]


@pytest.mark.parametrize(
    "changes",
    [
        {"map_x": lambda x: x[1:]},
        {"map_mean": lambda grid: grid[:0], "map_y": lambda y: y[:0]},
        {"paths": lambda places: places[0]},
        {"path_lengths": lambda lengths: lengths[0]},
    ],
    ids=["other places", "no places", "a path of numbers", "one length"],
)
def test_maps_that_fit_no_maze_cost_one_warning(tmp_path: Path, changes: dict[str, Any]) -> None:
    arrays(**changes)(synthetic_run(tmp_path, lines=2, evaluations=3))
    page = page_data([read_run(tmp_path)])
    assert len(page["warnings"]) == 1 and len(page["mazes"][0]["frames"]) == 2


def test_a_number_beyond_numbers_is_no_point_of_a_curve(tmp_path: Path) -> None:
    folder = synthetic_run(tmp_path, lines=2, evaluations=1)
    with open(folder.path / "metrics.jsonl", "a") as log:
        log.write(json.dumps({"step": 300, "critic/0": HUGE, "critic/1": 1.0}) + "\n")
    metrics = page_data([read_run(tmp_path)])["runs"][0]["metrics"]
    assert metrics["critic/0"][-1] is None and metrics["critic/1"][-1] == 1.0


def test_a_run_of_installed_chary_has_no_commit() -> None:
    parts = ("observation_mean", "observation_std", "action_low", "action_high")
    config: dict[str, Any] = {
        "dataset": {"name": "x", "fingerprint": "x", "observation_size": 1, "action_size": 1},
        "run": {"dataset": "x"},
        "scaling": {**{part: [1.0] for part in parts}, "reward": {"scale": 1.0}},
        "source": None,
    }
    require_config(config)
    for damaged in ({"source": "a commit"}, {"layout": None}):
        with pytest.raises(ValueError, match="is not an object"):
            require_config({**config, **damaged})
