import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chary.data import formats
from chary.data.collect.mazes import Job, collect_block
from chary.data.dataset import Dataset
from chary.data.doctor import Facts, check, examine
from chary.errors import CharyError
from tests.conftest import call_chary
from tests.data.test_dataset import BAD, make_columns

Columns = dict[str, np.ndarray]
LENGTH = 50
"""The time limit of the clean data."""


def ball(*, sparse: bool = False, seed: int = 0) -> Columns:
    """Clean data: a ball in three dimensions, pushed about; every third episode truly ends early."""
    return {key: array.copy() for key, array in _roll(sparse, seed).items()}


@cache
def _roll(sparse: bool, seed: int) -> Columns:
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {key: [] for key in make_columns()}
    for episode in range(40):
        length = int(rng.integers(25, LENGTH)) if episode % 3 == 0 else LENGTH
        position, velocity = 2.0 * rng.standard_normal(3), 0.1 * rng.standard_normal(3)
        for step in range(length):
            action = rng.uniform(-0.99, 0.99, 3)
            before = np.concatenate([position, velocity])
            velocity = 0.9 * velocity + 0.1 * action
            position = position + 0.1 * velocity
            after = np.concatenate([position, velocity])
            last, true_end = step == length - 1, length < LENGTH
            dense = velocity[0] - 0.5 * (action**2).sum() + 0.1 * position[1]
            reward = float(last and true_end) - 1.0 if sparse else dense
            row = (before, action, reward, after, last and true_end, last and not true_end)
            for column, value in zip(rows.values(), row, strict=True):
                column.append(value)
    return {
        key: np.asarray(values, bool if key in ("terminals", "timeouts") else np.float32)
        for key, values in rows.items()
    }


def change(key: str, alter: Callable[[np.ndarray], np.ndarray | None]) -> Callable[[Columns], None]:
    """Alter one column, in place or by returning another."""

    def apply(columns: Columns) -> None:
        altered = alter(columns[key])
        if altered is not None:
            columns[key] = altered

    return apply


def put(key: str, index: Any, value: Any) -> Callable[[Columns], None]:
    def apply(columns: Columns) -> None:
        columns[key][index] = value

    return apply


def ends(columns: Columns) -> np.ndarray:
    return np.flatnonzero(columns["terminals"] | columns["timeouts"])


def without(key: str) -> Callable[[Columns], None]:
    def apply(columns: Columns) -> None:
        del columns[key]

    return apply


def in_turn(*steps: Callable[[Columns], None]) -> Callable[[Columns], None]:
    def apply(columns: Columns) -> None:
        for step in steps:
            step(columns)

    return apply


def rename(columns: Columns) -> None:
    columns["terminations"] = columns.pop("terminals")
    columns["truncations"] = columns.pop("timeouts")


def minari_observations(columns: Columns) -> None:
    """One observation more in each episode, as Minari has it."""
    last = ends(columns)
    after = columns.pop("next_observations")[last]
    columns["observations"] = np.insert(columns["observations"], last + 1, after, axis=0)


def twin(sign: float) -> Callable[[Columns], None]:
    def apply(columns: Columns) -> None:
        for key in ("observations", "next_observations"):
            columns[key][:, 4] = sign * columns[key][:, 1]

    return apply


def no_ends(columns: Columns) -> None:
    columns["terminals"][:] = columns["timeouts"][:] = False


def time_limits_as_ends(columns: Columns) -> None:
    columns["terminals"] |= columns["timeouts"]
    columns["timeouts"][:] = False


def uneven(columns: Columns) -> None:
    """The true ends, of all lengths, become cuts."""
    columns["timeouts"] |= columns["terminals"]
    columns["terminals"][:] = False


def drop_flag(columns: Columns) -> None:
    columns["timeouts"][ends(columns)[4]] = False


def move_flag(columns: Columns) -> None:
    row = ends(columns)[4]
    columns["timeouts"][row], columns["timeouts"][row - 2] = False, True


def leap(columns: Columns) -> None:
    """The world moves between two rows, and next_observations know it."""
    row = ends(columns)[4]
    columns["observations"][row - 20 : row + 1, :3] += 5.0
    columns["next_observations"][row - 21 : row + 1, :3] += 5.0


def repeat_episode(columns: Columns) -> None:
    first, second = ends(columns)[3:5]
    for key, array in columns.items():
        columns[key] = np.concatenate([array, array[first + 1 : second + 1]])


def repeat_rows(columns: Columns) -> None:
    """A logger that writes some steps twice, in episodes that end by themselves."""
    rows = np.flatnonzero(columns["terminals"]) - 5
    del columns["next_observations"]
    for key, array in columns.items():
        columns[key] = np.insert(array, rows, array[rows], axis=0)


def shuffle(columns: Columns) -> None:
    rng = np.random.default_rng(0)
    inside = np.setdiff1d(np.arange(len(columns["rewards"])), ends(columns))
    order = rng.permutation(inside)
    for key in ("observations", "actions", "rewards", "next_observations"):
        columns[key][inside] = columns[key][order]


def goals(columns: Columns) -> None:
    """D4RL antmaze's infos: the next position, and the episode's goal."""
    columns["infos/qpos"] = columns.pop("next_observations")[:, :3]
    episode = np.concatenate([[0], np.cumsum(columns["terminals"] | columns["timeouts"])[:-1]])
    columns["infos/goal"] = np.random.default_rng(0).standard_normal((100, 2))[episode]


def late(columns: Columns) -> None:
    """Each action stands in the row after its own; the rewards do not tell."""
    columns["actions"] = np.roll(columns["actions"], 1, axis=0)
    columns["rewards"] = np.random.default_rng(0).standard_normal(len(columns["rewards"]))


def choose(of: Callable[[np.ndarray], np.ndarray]) -> Callable[[Columns], None]:
    """Choices in place of amounts; where they go is not in the observations."""

    def apply(columns: Columns) -> None:
        columns["actions"] = of(columns["actions"]).astype(np.float32)

    return apply


def bounds(low: float, high: float) -> Callable[[Columns], None]:
    return lambda columns: columns.update(action_low=np.array(low), action_high=np.array(high))


def clock(step: float) -> Callable[[Columns], None]:
    """A row every 10 seconds, but one."""

    def apply(columns: Columns) -> None:
        steps = np.full(len(columns["rewards"]), 10.0)
        steps[ends(columns)[4] - 20] = step
        columns["times"] = np.concatenate([[0.0], np.cumsum(steps)[:-1]])

    return apply


def goal_rows(columns: Columns) -> None:
    """A walk that stands at its goal, and goes on."""
    columns["terminals"][60:63] = True


NAN = np.float32(np.nan)
DEFECTS: dict[str, tuple[str, str, Callable[[Columns], None], list[str]]] = {
    "NaN": ("error", "not-finite", put("observations", (7, 2), NAN), ["row 7", "dimension 2"]),
    "infinite": ("error", "not-finite", put("rewards", 99, np.inf), ["rewards", "row 99"]),
    "whole rows of NaN": ("error", "not-finite", put("observations", slice(7, 9), NAN), ["2 row"]),
    "constant observation": (
        "note",
        "constant-column",
        in_turn(put("observations", (..., 2), 3.0), put("next_observations", (..., 2), 3.0)),
        ["observations: dimension 2"],
    ),
    "constant action": ("warning", "constant-column", put("actions", (..., 1), 0.5), ["actions"]),
    "actions outside": (
        "error",
        "actions-outside",
        put("actions", (11, 1), 2.0),
        ["row 11", "to 2"],
    ),
    "wrong bounds": (
        "error",
        "action-bounds",
        lambda columns: columns.update(action_low=np.ones(3), action_high=-np.ones(3)),
        ["do not bound"],
    ),
    "actions at bounds": (
        "warning",
        "actions-at-bounds",
        change("actions", lambda actions: np.clip(10.0 * actions, -1.0, 1.0)),
        ["91%", "dimension 0, 1, 2"],
    ),
    "no reward": ("warning", "rewards-constant", put("rewards", ..., 0.0), ["Every reward is 0"]),
    "huge rewards": (
        "note",
        "reward-transform",
        change("rewards", lambda rewards: 1e5 * rewards),
        ["huge"],
    ),
    "rewards one row late": (
        "warning",
        "rewards-shifted",
        change("rewards", lambda rewards: np.roll(rewards, 1)),
        ["one row late"],
    ),
    "rewards one row early": (
        "warning",
        "rewards-shifted",
        change("rewards", lambda rewards: np.roll(rewards, -1)),
        ["one row early"],
    ),
    "Minari's flags": ("error", "minari-names", rename, ["truncations"]),
    "Minari's observations": ("error", "minari-layout", minari_observations, ["40 more"]),
    "missing flags": (
        "error",
        "missing-column",
        without("timeouts"),
        ["timeouts missing"],
    ),
    "unequal lengths": (
        "error",
        "unequal-lengths",
        change("rewards", lambda rewards: rewards[:-3]),
        ["unequal length", "rewards"],
    ),
    "text": (
        "error",
        "not-numbers",
        change("rewards", lambda rewards: rewards.astype(str)),
        ["not numbers"],
    ),
    "shape": ("error", "shape", change("actions", lambda actions: actions[:, 0]), ["must be"]),
    "empty": (
        "error",
        "no-transitions",
        lambda columns: columns.update({key: array[:0] for key, array in columns.items()}),
        ["no transitions"],
    ),
    "odd flags": (
        "error",
        "odd-flags",
        change("terminals", lambda flags: 2.0 * flags),
        ["is 2.0"],
    ),
    "float64": (
        "note",
        "float64",
        change("observations", lambda array: array.astype(np.float64)),
        ["float32"],
    ),
    "no ends": ("error", "no-ends", no_ends, ["no episode ever ends"]),
    "time limits as ends": (
        "warning",
        "terminals-at-time-limit",
        time_limits_as_ends,
        ["exactly 50 rows"],
    ),
    "both flags": (
        "warning",
        "both-flags",
        lambda columns: columns.update(timeouts=columns["timeouts"] | columns["terminals"]),
        ["both flags"],
    ),
    "uneven": ("note", "uneven-time-limits", uneven, ["different lengths"]),
    "missed reset": ("warning", "missed-reset", drop_flag, ["next_observations"]),
    "missed reset without next observations": (
        "warning",
        "teleport",
        in_turn(without("next_observations"), drop_flag),
        ["jump"],
    ),
    "missed reset by infos": ("error", "missed-reset", in_turn(goals, drop_flag), ["infos/goal"]),
    "misplaced end": ("warning", "misplaced-end", move_flag, ["next_observations"]),
    "misplaced end by leaps": (
        "warning",
        "misplaced-end",
        in_turn(without("next_observations"), move_flag),
        ["observations jump"],
    ),
    "misplaced end by infos": (
        "error",
        "misplaced-end",
        in_turn(goals, move_flag),
        ["infos/goal and infos/qpos"],
    ),
    "teleport": ("warning", "teleport", leap, ["jump inside"]),
    "wrong next observation": (
        "error",
        "next-observations",
        put("next_observations", (60, 1), 9.0),
        ["row 60"],
    ),
    "shuffled": ("warning", "next-observations", shuffle, ["shuffled"]),
    "episode twice": ("warning", "duplicate-episodes", repeat_episode, ["1 episode"]),
    "step twice": ("note", "duplicate-rows", repeat_rows, ["14 row(s)"]),
    "sentinel": (
        "warning",
        "sentinel",
        put("rewards", [40, 90], -999.0),
        ["rewards is -999 in 2 row(s), first row 40"],
    ),
    "actions one row late": ("warning", "actions-late", late, ["one row late", "0%"]),
    "integer codes": (
        "error",
        "finite-actions",
        in_turn(choose(lambda a: np.rint(2.0 * a[:, :1] + 2.0)), bounds(0.0, 4.0)),
        ["dimension 0 takes only 5 values: 0, 1, 2, 3, 4 (integer codes)"],
    ),
    "one-hot": (
        "error",
        "finite-actions",
        choose(lambda a: np.eye(3)[a.argmax(axis=1)]),
        ["one-hot vectors over dimension 0, dimension 1, dimension 2"],
    ),
    "on and off": (
        "warning",
        "finite-actions",
        change("actions", lambda a: np.stack([a[:, 0], np.sign(a[:, 1]), a[:, 2]], axis=1)),
        ["dimension 1 takes only 2 values: -1, 1"],
    ),
    "time gap": ("warning", "time-gap", clock(60.0), ["1 transition(s)", "usual 10", "longest 60"]),
    "time backwards": ("warning", "time-backwards", clock(-5.0), ["goes backwards in 1 row(s)"]),
    "constant infos": (
        "note",
        "constant-infos",
        lambda columns: columns.update({"infos/qpos": np.ones((len(columns["rewards"]), 3))}),
        ["infos/qpos"],
    ),
    "several terminals": ("note", "several-terminals", goal_rows, ["after 3 of them"]),
    "equal columns": ("warning", "twin-columns", twin(1.0), ["4 equals 1"]),
    "negated columns": ("warning", "twin-columns", twin(-1.0), ["4 is minus 1"]),
}


@pytest.mark.parametrize("case", DEFECTS)
def test_one_defect_gives_one_finding(case: str) -> None:
    severity, rule, damage, words = DEFECTS[case]
    columns = ball()
    damage(columns)
    (finding,) = examine(columns)
    assert (finding.severity, finding.rule) == (severity, rule)
    for word in words:
        assert word in finding.message
    assert finding.fix.endswith(".") and finding.message.endswith(".")


OWN = Facts(("x", "y", "z", "vx", "vy", "vz"), ("ux", "uy", "uz"), name="mine", own=True)


def test_scales_of_own_data_are_compared() -> None:
    columns = ball()
    for key in ("observations", "next_observations"):
        columns[key][:, 3:] *= 10.0
    assert examine(columns, OWN) == []
    for key in ("observations", "next_observations"):
        columns[key][:, 1] += 1000.0
    (finding,) = examine(columns, OWN)
    assert (finding.severity, finding.rule) == ("note", "scales")
    assert "observations: 'y' is about" in finding.message
    (finding,) = examine(columns, OWN._replace(normalised=False))
    assert finding.severity == "warning"
    assert examine(columns, OWN._replace(normalised=True)) == []
    assert examine(columns) == []  # a name's own settings are somebody else's choice


def test_too_little_data_is_said() -> None:
    columns = {key: array[:160] for key, array in ball().items()}
    for key in ("observations", "next_observations"):
        columns[key] = columns[key] * np.array([1, 1, 1, 10, 10, 10], np.float32)
    found = {finding.rule: finding for finding in examine(columns, OWN)}
    assert set(found) == {"too-little-data", "few-episodes"}
    assert "160 rows for 9 columns" in found["too-little-data"].message
    assert "4 episode(s)" in found["few-episodes"].message


def test_true_ends_of_halfcheetah_are_odd() -> None:
    columns = ball()
    assert examine(columns, Facts(name="hopper-medium-v0")) == []
    (finding,) = examine(columns, Facts(name="halfcheetah-medium-v0"))
    assert (finding.severity, finding.rule) == ("warning", "end-of-endless-task")
    assert finding.rows == tuple(np.flatnonzero(columns["terminals"])[:5])


def test_actions_that_answer_the_observation_are_not_late() -> None:
    """A thermostat's action reveals the temperature of its own row, though it acts slowly."""
    rng = np.random.default_rng(0)
    temperature, heat, rows = 20.0, 0.0, []
    for _ in range(4000):
        action = np.clip(0.3 * (21.0 - temperature) + 0.1 * rng.standard_normal(), -1, 1)
        rows.append((temperature, action))
        temperature += heat - 0.1 * (temperature - 20.0) + 0.3 * rng.standard_normal()
        heat = 0.05 * action
    observations, actions = (
        np.array(column, np.float32)[:, None] for column in zip(*rows, strict=True)
    )
    columns = {
        "observations": observations,
        "actions": actions,
        "rewards": rng.standard_normal(4000).astype(np.float32),
        "terminals": np.zeros(4000, bool),
        "timeouts": np.arange(4000) % 100 == 99,
    }
    assert examine(columns) == []


@pytest.mark.parametrize(
    "name", ["halfcheetah_medium-v2", "hopper_medium-v2", "walker2d_medium-v2", "antmaze-umaze-v0"]
)
def test_late_actions_of_real_files_are_seen(real_data: Path, name: str) -> None:
    columns, _ = formats.hdf5.read(real_data / "d4rl" / f"{name}.hdf5")
    columns["actions"] = np.roll(columns["actions"], 1, axis=0)
    assert "actions-late" in {finding.rule for finding in examine(columns)}


def test_columns_and_rows_are_those_of_the_users_file(tmp_path: Path) -> None:
    """Rows out of order, from two files: the doctor speaks of the files."""
    heading = "t,indoor,valve,paid"
    rng = np.random.default_rng(0)
    lines = [
        f"{t},{20 + rng.normal():.3f},{rng.uniform():.3f},{rng.normal():.3f}" for t in range(700)
    ]
    lines[30] = "30,-999,0.5,0.25"
    (tmp_path / "a.csv").write_text("\n".join([heading, *lines[::-1], ""]))
    lines[30] = "30,20.5,0.5,0.25"
    lines[50] = "50,-999,0.5,0.75"
    (tmp_path / "b.csv").write_text("\n".join([heading, *lines, ""]))
    command = ["data", "import", "a.csv", "b.csv", "--out", "log.hdf5", "--observations", "indoor"]
    command += ["--actions", "valve", "--reward", "paid", "--one-episode", "--time", "t"]
    assert call_chary(*command, cwd=tmp_path).returncode == 0
    found = {finding.rule: finding for finding in check(tmp_path / "log.hdf5")}
    assert "observations: 'indoor' is -999 in 2 row(s), first row 669 of a.csv" in (
        found["sentinel"].message
    )
    assert found["sentinel"].places == ("669 of a.csv", "50 of b.csv")
    assert found["sentinel"].rows == (30, 699 + 50)
    result = call_chary("data", "check", "log.hdf5", cwd=tmp_path)
    assert "Rows are those of a.csv, b.csv" in result.stdout and "50 of b.csv" in result.stdout


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("with_next", [True, False])
def test_clean_data_is_clean(seed: int, with_next: bool) -> None:
    columns = ball(seed=seed)
    if not with_next:
        del columns["next_observations"]
    before = {key: array.copy() for key, array in columns.items()}
    assert examine(columns) == []
    for key, array in columns.items():
        np.testing.assert_array_equal(array, before[key])  # looked at, not touched
    assert examine(ball(sparse=True, seed=seed)) == []
    goals_too = ball(seed=seed)
    goals(goals_too)
    assert examine(goals_too) == []


def test_rows_are_named() -> None:
    columns = ball()
    last = ends(columns)
    columns["rewards"][[3, 70, 71]] = np.nan
    move_flag(columns)
    found = {finding.rule: finding for finding in examine(columns)}
    assert found["not-finite"].rows == (3, 70, 71)
    assert found["misplaced-end"].rows == (last[4],)
    assert f"row {last[4]}, but the flag is in row {last[4] - 2}" in found["misplaced-end"].message
    assert [f.severity for f in examine(columns)] == ["error", "warning"]


def test_sparse_rewards_beside_the_end_they_belong_to() -> None:
    columns = ball(sparse=True)
    true_ends = np.flatnonzero(columns["terminals"])
    late = {**columns, "rewards": np.roll(columns["rewards"], 1)}
    (finding,) = examine(late)
    assert (finding.severity, finding.rule) == ("error", "rewards-shifted")
    assert finding.rows == tuple(true_ends[:5] + 1)
    early = {**columns, "rewards": np.roll(columns["rewards"], -1)}
    (finding,) = examine(early)
    assert (finding.severity, finding.rule) == ("warning", "rewards-shifted")
    assert finding.rows == tuple(true_ends[:5] - 1)


def test_rewards_of_rl_unplugged() -> None:
    """The first reward of each episode is NaN, the others are one row late."""
    columns = ball()
    columns["rewards"] = np.roll(columns["rewards"], 1)
    columns["rewards"][np.concatenate([[0], ends(columns)[:-1] + 1])] = np.nan
    assert [f.rule for f in examine(columns)] == ["not-finite", "rewards-shifted"]
    assert "as in RL Unplugged" in examine(columns)[1].message


def test_zero_and_one_rewards_are_worth_a_transform() -> None:
    columns = ball(sparse=True)
    columns["rewards"] += 1.0
    (finding,) = examine(columns)
    assert (finding.severity, finding.rule) == ("note", "reward-transform")
    assert "--reward-scale 4 --reward-shift -0.5" in finding.fix


def test_constant_rewards_say_something_where_the_task_ends() -> None:
    columns = ball()
    columns["rewards"][:] = -1.0
    assert examine(columns) == []


def test_numbers_at_the_end_of_float32_are_numbers() -> None:
    columns = ball()
    columns["observations"][::2] = 3e38
    assert "not-finite" not in {finding.rule for finding in examine(columns)}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_very_small_data(size: int) -> None:
    columns = {key: array[:size] for key, array in ball().items()}
    goals(columns)
    columns["terminals"] = np.ones(size, bool)
    assert not any(finding.severity == "error" for finding in examine(columns))


@pytest.mark.parametrize("case", BAD)
def test_what_loading_refuses_the_doctor_explains(case: str) -> None:
    columns = BAD[case][0](make_columns())
    assert any(finding.severity == "error" for finding in examine(columns))


def test_collected_data_is_healthy(tmp_path: Path) -> None:
    columns = collect_block(Job("pointmaze-umaze", 3_000, seed=0, block=0))
    dataset = Dataset.from_columns(columns, name="pointmaze-umaze")
    formats.write(dataset, tmp_path / "maze.npz")
    assert [(f.severity, f.rule) for f in check(tmp_path / "maze.npz")] == [
        ("note", "reward-transform")
    ]


MISPLACED = {("error", "misplaced-end"), ("warning", "rewards-constant")}
REAL = {
    "antmaze-large-play-v0": MISPLACED,
    "antmaze-medium-play-v0": MISPLACED,
    "antmaze-umaze-diverse-v0": MISPLACED,
    "antmaze-umaze-v0": {("warning", "rewards-constant")},
    "halfcheetah_medium-v2": set(),
    "halfcheetah_random-v1": {("note", "constant-infos")},
    "hopper_medium-v2": set(),
    "hopper_random-v1": {("note", "constant-infos")},
    "walker2d_medium-v2": set(),
    "walker2d_medium_replay-v1": {("note", "float64"), ("note", "constant-infos")},
}


@pytest.mark.parametrize("name", REAL)
def test_the_truth_about_real_files(real_data: Path, name: str) -> None:
    findings = check(real_data / "d4rl" / f"{name}.hdf5")
    assert {(finding.severity, finding.rule) for finding in findings} == REAL[name]
    for finding in findings:
        if finding.rule == "misplaced-end":
            assert finding.rows == (1000,) and "the flag is in row 998" in finding.message


@pytest.mark.parametrize("name", [name for name in REAL if name.startswith("antmaze")])
def test_resets_of_real_files_are_seen_without_infos(real_data: Path, name: str) -> None:
    columns, _ = formats.hdf5.read(real_data / "d4rl" / f"{name}.hdf5")
    rules = {finding.rule for finding in examine(columns)}
    assert rules == {rule for _, rule in REAL[name]}


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize(
    "name", ["halfcheetah_medium-v2", "hopper_medium-v2", "walker2d_medium-v2"]
)
def test_shifted_rewards_of_real_files_are_seen(real_data: Path, name: str, shift: int) -> None:
    columns, _ = formats.hdf5.read(real_data / "d4rl" / f"{name}.hdf5")
    columns["rewards"] = np.roll(columns["rewards"], shift)
    (finding,) = examine(columns)
    assert finding.rule == "rewards-shifted"
    assert f"one row {'late' if shift == 1 else 'early'}" in finding.message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_bytes(b"nothing")
    with pytest.raises(CharyError, match="not a readable npz"):
        check(tmp_path / "data.npz")
    with pytest.raises(CharyError, match="no such file"):
        check(tmp_path / "nowhere.npz")


def test_the_command(tmp_path: Path) -> None:
    columns: dict[str, Any] = ball()
    for key in ("observations", "next_observations"):
        columns[key][:, 3:] *= 10.0  # of the size of the rest
    np.savez(tmp_path / "clean.npz", **columns)
    result = call_chary("data", "check", tmp_path / "clean.npz")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{tmp_path / 'clean.npz'}: nothing found.\n"

    columns["rewards"][7] = np.nan
    np.savez(tmp_path / "sick.npz", **columns)
    result = call_chary("data", "check", tmp_path / "sick.npz")
    assert result.returncode == 1
    assert "1 error." in result.stdout and "not-finite" in result.stdout
    result = call_chary("data", "check", tmp_path / "sick.npz", "--json")
    assert result.returncode == 1
    answer = json.loads(result.stdout)
    assert (answer["errors"], answer["warnings"], answer["notes"]) == (1, 0, 0)
    assert answer["rows"][0]["rule"] == "not-finite" and answer["rows"][0]["rows"] == [7]
