import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chary.data import formats, load
from chary.data.collect import mazes
from chary.data.collect.mazes import Job, collect_block, collect_maze
from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.data.sources import NAMED, collected
from chary.data.sources.collected import cached_path, collect, load_collected
from chary.envs.mazes import MAZES
from chary.errors import CharyError

TRANSITIONS = 600


def use_cores(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and a recipe that is done in a moment by one process."""
    use_cores(monkeypatch, 1)
    monkeypatch.setenv("CHARY_CACHE", str(tmp_path))
    monkeypatch.setitem(collected.TRANSITIONS, "pointmaze-umaze", TRANSITIONS)
    return tmp_path


def never(*_: object, **__: object) -> Dataset:
    raise AssertionError("collected, though the cache has it")


def test_the_catalogue() -> None:
    kinds = ("pointmaze", "maze2d")
    expected = {f"{kind}-{size}" for kind in kinds for size in ("umaze", "medium", "large")}
    assert set(collected.TRANSITIONS) == expected
    for name, transitions in collected.TRANSITIONS.items():
        entry = NAMED[name]
        assert entry.name == name and entry.transitions == transitions and entry.description
        assert name in MAZES
    # Learning sees -2 and 2 where a reach task pays 0 and 1.
    for name in ("pointmaze-umaze", "pointmaze-medium", "pointmaze-large"):
        scale, shift = NAMED[name].reward
        assert (scale * (0 + shift), scale * (1 + shift)) == (-2.0, 2.0)


def test_data_does_not_depend_on_the_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mazes, "BLOCK", 400)
    found = []
    for count in (1, 2):
        use_cores(monkeypatch, count)
        found.append(collect_maze("pointmaze-umaze", 1_000, seed=3))
    assert found[0].fingerprint == found[1].fingerprint
    blocks = [
        collect_block(Job("pointmaze-umaze", size, 3, block))
        for block, size in enumerate((400, 400, 200))
    ]
    for key in COLUMNS:
        joined = np.concatenate([block[key] for block in blocks])
        np.testing.assert_array_equal(getattr(found[0], key), joined)


@pytest.mark.usefixtures("jobs_here")
@pytest.mark.parametrize("name", ["pointmaze-medium", "maze2d-umaze"])
def test_the_seed_decides_the_data(name: str) -> None:
    first = collect_maze(name, TRANSITIONS, seed=0)
    assert first.size == TRANSITIONS
    assert collect_maze(name, TRANSITIONS, seed=0).fingerprint == first.fingerprint
    assert collect_maze(name, TRANSITIONS, seed=1).fingerprint != first.fingerprint


def test_blocks_of_one_seed_differ() -> None:
    first, second = (collect_block(Job("pointmaze-umaze", 100, 0, block)) for block in (0, 1))
    assert (first["observations"] != second["observations"]).all(axis=1).any()
    assert first["terminals"][-1] or first["timeouts"][-1]


def test_in_a_block_each_row_follows_from_the_one_before() -> None:
    columns = collect_block(Job("pointmaze-large", 2_000, 0, 0))
    going_on = ~(columns["terminals"] | columns["timeouts"])[:-1]
    assert 0 < (~going_on).sum() < 200
    np.testing.assert_array_equal(
        columns["next_observations"][:-1][going_on], columns["observations"][1:][going_on]
    )
    jumps = np.abs(columns["next_observations"][:-1] - columns["observations"][1:]).max(axis=1)
    assert (jumps[~going_on] > 0).all()


@pytest.mark.usefixtures("jobs_here")
@pytest.mark.parametrize(
    ("name", "size"), [("pointmaze-umaze", 6_000), ("pointmaze-medium", 20_000)]
)
def test_few_episodes_lead_from_the_start_to_the_goal(name: str, size: int) -> None:
    """The whole way is almost never shown: it must be stitched together."""
    maze = MAZES[name]
    assert maze.start is not None
    dataset = collect_maze(name, size, seed=0)
    whole_ways, starts = 0, set()
    for rows in dataset.episodes():
        cells = [maze.cell(position) for position in dataset.observations[rows]]
        starts.add(cells[0])
        reached = bool(dataset.terminals[rows.stop - 1])
        whole_ways += reached and maze.start in cells
        if reached:
            last = dataset.next_observations[rows.stop - 1, :2]
            assert np.linalg.norm(last - maze.point(maze.goal)) <= maze.radius + 1e-5
    assert whole_ways <= 0.05 * len(dataset.episode_ends)
    others = set(maze.free_cells) - {maze.goal}
    assert starts <= others and len(starts) > 0.8 * len(others)
    # Rewards are 1 exactly at the true ends, and there are some.
    np.testing.assert_array_equal(dataset.rewards, dataset.terminals.astype(np.float32))
    assert dataset.terminals.sum() >= 3


@pytest.mark.usefixtures("jobs_here")
def test_maze2d_data_is_one_unbroken_run_that_pays_at_the_goal() -> None:
    maze = MAZES["maze2d-umaze"]
    dataset = collect_maze("maze2d-umaze", 3_000, seed=0)
    assert not dataset.terminals.any()
    assert dataset.episode_ends.tolist() == [2_999]
    np.testing.assert_array_equal(dataset.next_observations[:-1], dataset.observations[1:])
    distance = np.linalg.norm(dataset.observations[:, :2] - maze.point(maze.goal), axis=1)
    clear = np.abs(distance - maze.radius) > 1e-5
    np.testing.assert_array_equal(dataset.rewards[clear], distance[clear] <= maze.radius)
    assert 0 < dataset.rewards.sum() < 1_500


def test_the_cache_is_written_once_and_used_again(
    small_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cached_path("pointmaze-umaze")
    assert small_cache in path.parents and not path.exists()
    first = load_collected("pointmaze-umaze")
    assert path.is_file() and first.size == TRANSITIONS
    before = path.read_bytes()
    monkeypatch.setattr(collected, "collect_maze", never)
    second = load("pointmaze-umaze")
    assert second.fingerprint == first.fingerprint == first.metadata["fingerprint"]
    assert (second.name, second.metadata) == (first.name, first.metadata)
    assert path.read_bytes() == before


@pytest.mark.usefixtures("small_cache", "jobs_here")
@pytest.mark.parametrize("place", [0.5, 0.999])
def test_a_damaged_cache_file_is_collected_again(place: float) -> None:
    first = load_collected("pointmaze-umaze")
    path = cached_path("pointmaze-umaze")
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[int(place * len(whole))] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.warns(UserWarning, match="collecting it again") as caught:
        again = load_collected("pointmaze-umaze")
    assert len(caught) == 1 and str(path) in str(caught[0].message)
    assert again.fingerprint == first.fingerprint
    assert (
        load_collected("pointmaze-umaze").fingerprint == first.fingerprint
    )  # and no more warnings


@pytest.mark.usefixtures("small_cache", "jobs_here")
def test_a_cache_file_with_other_numbers_is_collected_again() -> None:
    first = load_collected("pointmaze-umaze")
    rewards = first.rewards.copy()
    rewards[0] += 1
    altered = replace(first, rewards=rewards)
    formats.write(altered, cached_path("pointmaze-umaze"))
    with pytest.warns(UserWarning, match="does not match its fingerprint"):
        assert load_collected("pointmaze-umaze").fingerprint == first.fingerprint


def test_a_cache_folder_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CHARY_CACHE", str(tmp_path / "file"))
    with pytest.raises(CharyError, match="Set CHARY_CACHE"):
        load_collected("pointmaze-umaze")


@pytest.mark.usefixtures("jobs_here")
def test_asking_for_a_number_of_transitions_or_a_seed() -> None:
    dataset = collect("pointmaze-umaze", transitions=50, seed=7)
    assert dataset.size == 50
    assert dataset.metadata["fingerprint"] == dataset.fingerprint
    assert "seed 7" in dataset.metadata["collected_by"]


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    with pytest.raises(CharyError, match="unknown dataset 'pointmaze-umaz'") as caught:
        load("pointmaze-umaz")
    assert "Did you mean pointmaze-umaze" in str(caught.value)
    assert ".hdf5" in str(caught.value)
    with pytest.raises(CharyError, match=r"There are: .* and \d+ more\."):
        load("zzz")


def test_a_script_may_collect_without_a_guard(tmp_path: Path) -> None:
    """New processes must not run the user's script again, as Python would have them do."""
    script = tmp_path / "script.py"
    script.write_text(
        "from chary.data.collect.mazes import collect_maze\n"
        "print('size', collect_maze('pointmaze-umaze', 100, seed=0).size)\n"
    )
    result = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "size 100\n"
