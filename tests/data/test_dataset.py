import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chary.cli.data.catalogue import describe
from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling
from chary.errors import CharyError
from tests.conftest import make_columns

Columns = dict[str, np.ndarray]


def without(*names: str) -> Callable[[Columns], Columns]:
    return lambda columns: {key: array for key, array in columns.items() if key not in names}


def with_column(name: str, array: np.ndarray) -> Callable[[Columns], Columns]:
    return lambda columns: {**columns, name: array}


def with_value(name: str, index: tuple[int, ...], value: float) -> Callable[[Columns], Columns]:
    def change(columns: Columns) -> Columns:
        array = columns[name].astype(np.float64)
        array[index] = value
        return {**columns, name: array}

    return change


def empty(columns: Columns) -> Columns:
    return {key: array[:0] for key, array in columns.items()}


def loop_episodes(dataset: Dataset) -> list[list[int]]:
    """Rows of each episode, by the plainest loop."""
    episodes: list[list[int]] = [[]]
    for row in range(dataset.size):
        episodes[-1].append(row)
        if (dataset.terminals[row] or dataset.timeouts[row]) and row + 1 < dataset.size:
            episodes.append([])
    return episodes


NO_ENDS = np.zeros(120, bool)

BAD: dict[str, tuple[Callable[[Columns], Columns], list[str]]] = {
    "missing column": (
        without("actions"),
        ["missing actions;", "next_observations, observations, rewards"],
    ),
    "nothing at all": (lambda _: {}, ["missing observations, actions", "it has nothing"]),
    "missing terminals": (without("terminals"), ["missing terminals", "write a column of False"]),
    "missing timeouts": (without("timeouts"), ["missing timeouts", "write a column of False"]),
    "unequal lengths": (
        with_column("rewards", np.zeros(119)),
        ["columns of unequal length", "observations 120", "rewards 119"],
    ),
    "NaN reward": (with_value("rewards", (37,), np.nan), ["rewards has NaN", "first in row 37"]),
    "infinite observation": (
        with_value("observations", (5, 1), np.inf),
        ["observations has NaN or infinite", "1 row(s)", "row 5"],
    ),
    "too large for float32": (
        with_value("next_observations", (8, 0), -1e300),
        ["next_observations has NaN or infinite", "row 8"],
    ),
    "NaN action": (with_value("actions", (9, 1), np.nan), ["actions has NaN", "row 9"]),
    "images": (
        with_column("observations", np.zeros((120, 4, 4))),
        ["observations has shape (120, 4, 4)", "images"],
    ),
    "discrete actions": (
        with_column("actions", np.zeros(120)),
        ["actions has shape (120,)", "discrete"],
    ),
    "rewards in two columns": (
        with_column("rewards", np.zeros((120, 2))),
        ["rewards has shape (120, 2)", "must be (transition,)"],
    ),
    "text": (with_column("rewards", np.array(["1"] * 120)), ["rewards holds <U1, not numbers"]),
    "complex numbers": (
        with_column("actions", np.zeros((120, 2), complex)),
        ["actions holds complex128, not numbers"],
    ),
    "Python objects": (
        with_column("rewards", np.array([None] * 120)),
        ["rewards holds object, not numbers"],
    ),
    "action outside its bounds": (
        with_value("actions", (11, 0), 1.5),
        ["1 action(s) outside [-1, 1]", "row 11", "[1.5,", "action_low and action_high"],
    ),
    "odd terminals": (
        with_value("terminals", (3,), 0.5),
        ["terminals must be True/False or 0/1, but row 3 is 0.5"],
    ),
    "odd timeouts": (
        with_value("timeouts", (4,), np.nan),
        ["timeouts must be True/False or 0/1, but row 4 is nan"],
    ),
    "no ends": (
        lambda columns: {**columns, "terminals": NO_ENDS, "timeouts": NO_ENDS},
        ["no episode ever ends", "set timeouts in the last row"],
    ),
    "empty": (empty, ["holds no transitions"]),
    "observations without dimensions": (
        lambda columns: {
            **without("next_observations")(columns),
            "observations": np.zeros((120, 0)),
        },
        ["observations has no dimensions (shape (120, 0))"],
    ),
    "actions without dimensions": (
        with_column("actions", np.zeros((120, 0))),
        ["actions has no dimensions"],
    ),
    "next observations of another size": (
        with_column("next_observations", np.zeros((120, 4))),
        ["observations are (120, 3) but next_observations (120, 4)"],
    ),
    "only cut rows": (
        lambda columns: {
            **without("next_observations")(columns),
            "terminals": NO_ENDS,
            "timeouts": ~NO_ENDS,
        },
        ["no transition is left", "Add next_observations"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_columns_are_refused_with_the_reason(columns: Columns, case: str) -> None:
    change, words = BAD[case]
    with pytest.raises(CharyError) as caught:
        Dataset.from_columns(change(columns), name="tiny", source="some/file.hdf5")
    message = str(caught.value)
    assert message.startswith("some/file.hdf5: ")
    for word in words:
        assert word in message


def test_hint_about_ends_only_where_ends_are_missing(columns: Columns) -> None:
    with pytest.raises(CharyError) as caught:
        Dataset.from_columns(without("rewards")(columns), name="tiny")
    assert str(caught.value).startswith("tiny: missing rewards")
    assert "Episode ends" not in str(caught.value)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1.0, -1.0, "low < high"),
        (-np.inf, 1.0, "finite"),
        (-1.0, np.nan, "finite"),
        (np.full(3, -1.0), 1.0, "one for each of 2 action dimension"),
        (-1.0, np.ones((1, 2)), "one for each of 2 action dimension"),
    ],
)
def test_bad_bounds_are_refused(
    columns: Columns, low: np.ndarray | float, high: np.ndarray | float, words: str
) -> None:
    with pytest.raises(CharyError, match=words):
        Dataset.from_columns(columns, name="tiny", action_low=low, action_high=high)


def test_own_bounds_are_kept_and_checked(columns: Columns) -> None:
    low, high = np.array([-3.0, 0.0]), np.array([3.0, 10.0])
    columns["actions"] = np.tile([[-2.5, 9.0]], (120, 1))
    dataset = Dataset.from_columns(columns, name="tiny", action_low=low, action_high=high)
    np.testing.assert_array_equal(dataset.action_low, low)
    np.testing.assert_array_equal(dataset.action_high, high)
    columns["actions"][7, 1] = -0.5  # inside the first dimension's bounds, not the second's
    with pytest.raises(CharyError, match="row 7"):
        Dataset.from_columns(columns, name="tiny", action_low=low, action_high=high)


def test_one_bound_serves_all_dimensions(columns: Columns) -> None:
    dataset = Dataset.from_columns(columns, name="tiny", action_low=-2.0, action_high=4.0)
    assert dataset.action_low.tolist() == [-2.0, -2.0]
    assert dataset.action_high.tolist() == [4.0, 4.0]


def test_rounding_at_a_bound_is_no_error(columns: Columns) -> None:
    columns["actions"][0, 0] = np.nextafter(np.float32(1), np.float32(2))
    assert Dataset.from_columns(columns, name="tiny").actions[0, 0] > 1


def test_types_and_values_are_as_given(columns: Columns) -> None:
    given = {key: array.astype(np.float64) for key, array in columns.items()}
    given["rewards"] = given["rewards"][:, None]  # as some D4RL files have it
    dataset = Dataset.from_columns(given, name="tiny")
    for key in COLUMNS:
        array = getattr(dataset, key)
        assert array.dtype == (bool if key in ("terminals", "timeouts") else np.float32)
        np.testing.assert_array_equal(array, columns[key])
    assert (dataset.size, dataset.observation_size, dataset.action_size) == (120, 3, 2)


def test_arrays_are_read_only_and_its_own(columns: Columns) -> None:
    before = {key: array.copy() for key, array in columns.items()}
    dataset = Dataset.from_columns(columns, name="tiny")
    parts = dataset.split(0.5, seed=0)
    for each in (dataset, *parts):
        for key in (*COLUMNS, "action_low", "action_high"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(each, key)[0] = 0
    for key, array in columns.items():
        np.testing.assert_array_equal(array, before[key])
        array[...] = 0  # the caller's arrays stay the caller's
    np.testing.assert_array_equal(dataset.rewards, before["rewards"])
    np.testing.assert_array_equal(dataset.observations, before["observations"])


def test_given_columns_are_not_changed_when_ends_are_mended() -> None:
    columns = make_columns()
    columns["timeouts"][-1] = False
    before = {key: array.copy() for key, array in columns.items()}
    dataset = Dataset.from_columns(columns, name="tiny")
    assert dataset.timeouts[-1]
    for key, array in columns.items():
        np.testing.assert_array_equal(array, before[key])


def test_equal_data_has_an_equal_fingerprint() -> None:
    first = Dataset.from_columns(make_columns(), name="one")
    second = Dataset.from_columns(make_columns(), name="another", metadata={"from": "elsewhere"})
    assert first.fingerprint == second.fingerprint
    assert len(first.fingerprint) == 64


def test_fingerprint_changes_with_any_single_number() -> None:
    columns = make_columns()
    seen = {Dataset.from_columns(columns, name="tiny").fingerprint}
    variants = 0
    for key, array in columns.items():
        for index in ((0,) * array.ndim, (50,) + (array.ndim - 1) * (1,)):
            changed = array.copy()
            changed[index] = ~array[index] if array.dtype == bool else np.nextafter(array[index], 0)
            dataset = Dataset.from_columns({**columns, key: changed}, name="tiny")
            seen.add(dataset.fingerprint)
            variants += 1
    for low, high in ((-1.5, 1.0), (-1.0, 1.5)):
        dataset = Dataset.from_columns(columns, name="tiny", action_low=low, action_high=high)
        seen.add(dataset.fingerprint)
        variants += 1
    assert len(seen) == variants + 1


def test_next_observations_come_from_the_next_row() -> None:
    """Rows 0-2 are cut, rows 3-5 truly end, rows 6-7 stop where the data stops."""
    columns = {
        "observations": np.arange(8.0)[:, None],
        "actions": np.linspace(-1, 1, 8)[:, None],
        "rewards": np.arange(8.0) * 10,
        "terminals": np.arange(8) == 5,
        "timeouts": np.arange(8) == 2,
    }
    dataset = Dataset.from_columns(columns, name="tiny")
    assert dataset.observations[:, 0].tolist() == [0, 1, 3, 4, 5, 6]
    assert dataset.next_observations[:, 0].tolist() == [1, 2, 4, 5, 5, 7]
    assert dataset.rewards.tolist() == [0, 10, 30, 40, 50, 60]
    kept = columns["actions"][[0, 1, 3, 4, 5, 6]].astype(np.float32)
    np.testing.assert_array_equal(dataset.actions, kept)
    assert dataset.terminals.tolist() == [False, False, False, False, True, False]
    assert dataset.timeouts.tolist() == [False, True, False, False, False, True]
    assert [list(range(8))[rows] for rows in dataset.episodes()] == [[0, 1], [2, 3, 4], [5]]


def test_a_cut_row_right_after_an_end_disappears() -> None:
    """Row 1 truly ends, row 2 is an episode of one cut row: nothing of it can be used."""
    columns = {
        "observations": np.arange(5.0)[:, None],
        "actions": np.zeros((5, 1)),
        "rewards": np.zeros(5),
        "terminals": np.array([0, 1, 0, 0, 1]),
        "timeouts": np.array([0, 0, 1, 0, 0]),
    }
    dataset = Dataset.from_columns(columns, name="tiny")
    assert dataset.observations[:, 0].tolist() == [0, 1, 3, 4]
    assert dataset.next_observations[:, 0].tolist() == [1, 1, 4, 4]
    assert dataset.terminals.tolist() == [False, True, False, True]
    assert not dataset.timeouts.any()


@pytest.mark.parametrize("seed", range(5))
def test_derived_transitions_against_a_plain_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = without("next_observations")(make_columns(seed=seed))
    columns["terminals"] = rng.random(120) < 0.1
    columns["timeouts"] = rng.random(120) < 0.1
    expected = []
    for row in range(120):
        if columns["terminals"][row]:
            expected.append((row, row))
        elif row + 1 < 120 and not columns["timeouts"][row]:
            expected.append((row, row + 1))
    dataset = Dataset.from_columns(columns, name="tiny")
    here, after = map(list, zip(*expected, strict=True))
    np.testing.assert_array_equal(dataset.observations, columns["observations"][here])
    np.testing.assert_array_equal(dataset.next_observations, columns["observations"][after])
    np.testing.assert_array_equal(dataset.terminals, columns["terminals"][here])
    jumps = [i for i in range(len(here) - 1) if here[i + 1] != here[i] + 1]
    ends = {*jumps, *np.flatnonzero(dataset.terminals), dataset.size - 1}
    assert set(dataset.episode_ends) == ends


def test_an_end_with_both_flags_is_a_true_end(columns: Columns) -> None:
    both = columns["terminals"] | columns["timeouts"]
    dataset = Dataset.from_columns({**columns, "terminals": both, "timeouts": both}, name="tiny")
    np.testing.assert_array_equal(dataset.terminals, both)
    assert not dataset.timeouts.any()


def test_the_last_row_always_ends_an_episode(columns: Columns) -> None:
    columns["timeouts"][-1] = False
    assert not columns["terminals"][-1]
    dataset = Dataset.from_columns(columns, name="tiny")
    assert dataset.timeouts[-1] and not dataset.terminals[-1]
    assert dataset.episode_ends[-1] == dataset.size - 1


@pytest.mark.parametrize("seed", range(3))
def test_episodes_returns_and_lengths_against_plain_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = make_columns(seed=seed)
    columns["terminals"], columns["timeouts"] = rng.random(120) < 0.1, rng.random(120) < 0.2
    dataset = Dataset.from_columns(columns, name="tiny")
    episodes = loop_episodes(dataset)
    assert [list(range(dataset.size))[rows] for rows in dataset.episodes()] == episodes
    assert dataset.episode_lengths.tolist() == [len(rows) for rows in episodes]
    returns = [sum(float(dataset.rewards[row]) for row in rows) for rows in episodes]
    np.testing.assert_allclose(dataset.episode_returns, returns, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.8])
def test_split_is_by_whole_episodes_disjoint_and_complete(share: float) -> None:
    dataset = Dataset.from_columns(make_columns(episodes=11, length=7), name="tiny")
    learn, held_out = dataset.split(share, seed=3)
    assert len(held_out.episode_ends) == max(1, round(share * 11))
    originals = [dataset.observations[rows].tobytes() for rows in dataset.episodes()]
    parts = [
        [part.observations[rows].tobytes() for rows in part.episodes()]
        for part in (learn, held_out)
    ]
    assert sorted(parts[0] + parts[1]) == sorted(originals)
    assert not set(parts[0]) & set(parts[1])
    for key in COLUMNS:
        joined = np.concatenate([getattr(learn, key), getattr(held_out, key)])
        assert sorted(row.tobytes() for row in joined) == sorted(
            row.tobytes() for row in getattr(dataset, key)
        )


def test_split_depends_on_the_seed_alone(dataset: Dataset) -> None:
    again = dataset.split(0.5, seed=0)[1].fingerprint
    assert dataset.split(0.5, seed=0)[1].fingerprint == again
    assert {dataset.split(0.5, seed=seed)[1].fingerprint for seed in range(8)} != {again}


def test_split_leaves_something_to_learn_from() -> None:
    dataset = Dataset.from_columns(make_columns(episodes=1), name="tiny")
    with pytest.raises(CharyError, match="still have one to learn from"):
        dataset.split(0.5, seed=0)


def scaling_of(columns: Columns, *, normalise: bool = False) -> tuple[Dataset, Scaling]:
    low, high = np.array([-3.0, 0.1], np.float32), np.array([1.0, 0.7], np.float32)
    columns["actions"] = np.random.default_rng(1).uniform(low, high, (len(columns["rewards"]), 2))
    dataset = Dataset.from_columns(columns, name="tiny", action_low=low, action_high=high)
    reward = RewardTransform(scale=4.0, shift=-0.5)
    return dataset, Scaling.of(dataset, reward, normalise_observations=normalise)


def test_unit_actions_and_back(columns: Columns) -> None:
    dataset, scaling = scaling_of(columns)
    unit = scaling.to_unit(dataset.actions)
    assert unit.dtype == np.float32
    assert unit.min() >= -1 and unit.max() <= 1
    np.testing.assert_allclose(scaling.from_unit(unit), dataset.actions, atol=1e-6)
    grid = np.linspace(-1, 1, 21, dtype=np.float32)[:, None].repeat(2, axis=1)
    np.testing.assert_allclose(scaling.to_unit(scaling.from_unit(grid)), grid, atol=1e-6)
    ends = np.stack([dataset.action_low, dataset.action_high])
    np.testing.assert_allclose(scaling.to_unit(ends), [[-1, -1], [1, 1]], atol=1e-6)


def test_rounding_beyond_a_bound_is_clipped(columns: Columns) -> None:
    dataset, scaling = scaling_of(columns)
    assert (scaling.to_unit(dataset.action_high + 1e-5) == 1).all()
    assert (scaling.to_unit(dataset.action_low - 1e-5) == -1).all()


def test_reward_transform_shifts_first(columns: Columns) -> None:
    _, scaling = scaling_of(columns)
    rewards = np.array([0.0, 0.5, 1.0], np.float32)
    np.testing.assert_array_equal(scaling.rewards(rewards), [-2.0, 0.0, 2.0])


def test_normalised_observations_have_mean_zero_and_deviation_one(columns: Columns) -> None:
    columns["observations"] = columns["observations"] * [100.0, 0.01, 1.0] + [50.0, -3.0, 0.0]
    columns["observations"][:, 2] = 7.0
    dataset, scaling = scaling_of(columns, normalise=True)
    scaled = scaling.observations(dataset.observations)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 0], atol=1e-4)


def test_observations_stay_as_they_are_by_default(columns: Columns) -> None:
    dataset, scaling = scaling_of(columns)
    np.testing.assert_array_equal(scaling.observations(dataset.observations), dataset.observations)


def test_scaling_survives_json_to_the_bit(columns: Columns) -> None:
    _, scaling = scaling_of(columns, normalise=True)
    restored = Scaling.from_json(json.loads(json.dumps(scaling.to_json())))
    for name in scaling._fields[:-1]:
        before, after = getattr(scaling, name), getattr(restored, name)
        assert after.dtype == before.dtype == np.float32
        assert after.tobytes() == before.tobytes()
    assert restored.reward == scaling.reward


def test_transitions_are_scaled_and_know_true_ends(columns: Columns) -> None:
    dataset, scaling = scaling_of(columns, normalise=True)
    batch = dataset.transitions(scaling)
    np.testing.assert_array_equal(batch.discounts, np.where(dataset.terminals, 0.0, 1.0))
    np.testing.assert_array_equal(batch.actions, scaling.to_unit(dataset.actions))
    np.testing.assert_array_equal(batch.rewards, scaling.rewards(dataset.rewards))
    np.testing.assert_array_equal(batch.observations, scaling.observations(dataset.observations))
    np.testing.assert_array_equal(
        batch.next_observations, scaling.observations(dataset.next_observations)
    )


def test_next_actions_are_those_of_the_next_row_and_unknown_at_ends(columns: Columns) -> None:
    dataset, scaling = scaling_of(columns, normalise=False)
    assert dataset.transitions(scaling).next_actions is None
    whole = dataset.transitions(scaling, next_actions=True)
    some = np.array([19, 3, 118, 119, 3])  # the end of an episode and of the data among them
    part = dataset.transitions(scaling, some, next_actions=True)
    unit = scaling.to_unit(dataset.actions)
    for row, action in enumerate(np.asarray(whole.next_actions)):
        if dataset.terminals[row] or dataset.timeouts[row]:
            assert np.isnan(action).all()
        else:
            np.testing.assert_array_equal(action, unit[row + 1])
    np.testing.assert_array_equal(part.next_actions, np.asarray(whole.next_actions)[some])


# ---- several steps ------------------------------------------------------------------------------------


def by_hand(dataset: Dataset, scaling: Scaling, n: int, gamma: float) -> list[dict[str, Any]]:
    """Transitions of n steps in a plain loop, row by row."""
    rows = []
    for t in range(dataset.size):
        total, k = 0.0, 0
        while True:
            here = t + k
            total += gamma**k * float(scaling.rewards(dataset.rewards[here]))
            if dataset.terminals[here] or dataset.timeouts[here] or k == n - 1:
                break
            k += 1
        following = np.full(dataset.action_size, np.nan)
        if not (dataset.terminals[t + k] or dataset.timeouts[t + k]):
            following = dataset.actions[t + k + 1]
        rows.append(
            {
                "rewards": total,
                "discounts": 0.0 if dataset.terminals[t + k] else gamma**k,
                "next_observations": dataset.next_observations[t + k],
                "next_actions": following,
            }
        )
    return rows


@pytest.mark.parametrize("n", [1, 2, 5, 50])
@pytest.mark.parametrize("some", [False, True])
def test_transitions_of_several_steps(dataset: Dataset, n: int, some: bool) -> None:
    """Episodes have 20 rows; every other truly ends, and all others are cut by a time limit."""
    scaling = Scaling.of(dataset, RewardTransform(2.0, 0.3), normalise_observations=False)
    indices = np.array([119, 0, 38, 39, 18, 57]) if some else None
    batch = dataset.transitions(scaling, indices, next_actions=True, n_step=n, discount=0.9)
    expected = by_hand(dataset, scaling, n, 0.9)
    expected = [expected[i] for i in indices] if indices is not None else expected
    for name in ("rewards", "discounts", "next_observations", "next_actions"):
        found = np.asarray(getattr(batch, name))
        np.testing.assert_allclose(found, [row[name] for row in expected], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(
        batch.observations,
        dataset.observations if indices is None else dataset.observations[indices],
    )


def test_one_step_is_what_it_was(dataset: Dataset) -> None:
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations=False)
    plain = dataset.transitions(scaling)
    np.testing.assert_array_equal(plain.discounts, 1.0 - dataset.terminals)
    np.testing.assert_array_equal(plain.rewards, dataset.rewards)


def test_walks_are_counted_not_rows_at_a_goal() -> None:
    """Two walks of ten rows; the first stands at its goal for three rows before its time is up."""
    place = np.arange(21, dtype=np.float32)[:, None]
    columns = make_columns() | {
        "observations": place[:20],
        "next_observations": place[1:].copy(),
        "actions": np.zeros((20, 1), np.float32),
        "rewards": np.ones(20, np.float32),
        "terminals": np.isin(np.arange(20), [5, 6, 7, 19]),
        "timeouts": np.arange(20) == 9,
    }
    columns["next_observations"][9] = -1.0
    dataset = Dataset.from_columns(columns, name="walks")
    assert dataset.walk_ends.tolist() == [9, 19]
    facts = describe(dataset)
    assert (facts["episodes"], facts["length_mean"], facts["return_mean"]) == (2, 10.0, 10.0)
    assert (facts["ended_by_the_task"], facts["cut_short"], facts["goal_rows_inside"]) == (1, 1, 3)
