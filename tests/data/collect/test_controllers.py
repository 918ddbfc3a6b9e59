import pickle
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
import pytest

from chary.data.collect.controllers import read_controller
from chary.errors import CharyError

SIZES = {"hopper": (11, 3), "halfcheetah": (17, 6), "walker2d": (17, 6), "ant": (27, 8)}
Arrays = dict[str, Any]


def layer(name: str, out: int, size: int, rng: np.random.Generator) -> Arrays:
    return {
        f"{name}/weight": rng.standard_normal((out, size)).astype(np.float32),
        f"{name}/bias": rng.standard_normal(out).astype(np.float32),
    }


def rlkit() -> Arrays:
    rng = np.random.default_rng(0)
    return (
        layer("fc0", 7, 3, rng)
        | layer("fc1", 6, 7, rng)
        | layer("last_fc", 2, 6, rng)
        | layer("last_fc_log_std", 2, 6, rng)
    )


def sb3_sac() -> Arrays:
    names = {"fc0": "actor/latent_pi/0", "fc1": "actor/latent_pi/2"}
    names |= {"last_fc": "actor/mu", "last_fc_log_std": "actor/log_std"}
    split = ((*key.split("/"), array) for key, array in rlkit().items())
    return {f"{names[name]}/{kind}": array for name, kind, array in split}


def sb3_on_policy() -> Arrays:
    rng = np.random.default_rng(0)
    return (
        layer("mlp_extractor/policy_net/0", 7, 3, rng)
        | layer("mlp_extractor/policy_net/2", 6, 7, rng)
        | layer("action_net", 2, 6, rng)
        | {"log_std": np.array([-1.0, -2.0], np.float32)}
        | {"obs_norm/mean": np.array([1.0, 2.0, 3.0]), "obs_norm/var": np.array([4.0, 9.0, 1.0])}
        | {"obs_norm/eps": np.float64(1e-8), "obs_norm/clip": np.float64(1.5)}
    )


def write(folder: Path, arrays: Arrays) -> Path:
    path = folder / "controller.npz"
    np.savez(path, **arrays)
    return path


@pytest.fixture
def observations() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)


@pytest.mark.parametrize("make", [rlkit, sb3_sac])
def test_relu_layers_and_the_tanh_of_a_gaussian(
    make: Any, tmp_path: Path, observations: np.ndarray
) -> None:
    weights = rlkit()

    def apply(name: str, inputs: np.ndarray) -> np.ndarray:
        return inputs @ weights[f"{name}/weight"].T + weights[f"{name}/bias"]

    features = np.maximum(apply("fc1", np.maximum(apply("fc0", observations), 0)), 0)
    mean, log_std = apply("last_fc", features), apply("last_fc_log_std", features)
    controller = read_controller(write(tmp_path, make()))
    assert (controller.observation_size, controller.action_size) == (3, 2)
    np.testing.assert_allclose(controller.act(observations), np.tanh(mean), atol=1e-5)
    noise = np.random.default_rng(5).standard_normal((5, 2), np.float32)
    expected = np.tanh(mean + np.exp(np.clip(log_std, -20, 2)) * noise)
    actual = controller.act(observations, np.random.default_rng(5))
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    assert actual.dtype == np.float32


def test_tanh_layers_and_a_gaussian_on_normalised_observations(
    tmp_path: Path, observations: np.ndarray
) -> None:
    weights = sb3_on_policy()
    inputs = np.clip((observations - [1, 2, 3]) / [2, 3, 1], -1.5, 1.5)
    assert (np.abs(inputs) == 1.5).any() and (np.abs(inputs) < 1.5).any()
    for name in ("mlp_extractor/policy_net/0", "mlp_extractor/policy_net/2"):
        inputs = np.tanh(inputs @ weights[f"{name}/weight"].T + weights[f"{name}/bias"])
    mean = inputs @ weights["action_net/weight"].T + weights["action_net/bias"]
    controller = read_controller(write(tmp_path, weights))
    np.testing.assert_allclose(controller.act(observations), np.clip(mean, -1, 1), atol=1e-5)
    noise = np.random.default_rng(5).standard_normal((5, 2), np.float32)
    expected = np.clip(mean + np.exp([-1.0, -2.0]) * noise, -1, 1)
    actual = controller.act(observations, np.random.default_rng(5))
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_a_linear_policy_has_no_randomness(tmp_path: Path, observations: np.ndarray) -> None:
    weight = np.array([[0.1, 0.2, 0.3], [9.0, 9.0, 9.0]], np.float32)
    controller = read_controller(write(tmp_path, {"action_net/weight": weight}))
    expected = np.clip(observations @ weight.T, -1, 1)
    actions = controller.act(observations, np.random.default_rng(0))
    np.testing.assert_allclose(actions, expected, atol=1e-6)


def test_the_fingerprint_is_of_every_number(tmp_path: Path) -> None:
    first = read_controller(write(tmp_path, sb3_on_policy())).fingerprint
    assert read_controller(write(tmp_path, sb3_on_policy())).fingerprint == first
    for key in sb3_on_policy():
        changed = sb3_on_policy()
        changed[key] = changed[key] + np.asarray(0.5, changed[key].dtype)
        assert read_controller(write(tmp_path, changed)).fingerprint != first, key


def without(key: str) -> Arrays:
    return {name: array for name, array in rlkit().items() if name != key}


BROKEN: dict[str, tuple[Arrays, str]] = {
    "another file": ({"weights": np.ones(3)}, "not a controller; it holds weights"),
    "nothing": ({}, "it holds nothing"),
    "no layers to the head": (without("fc1/weight"), "not understood"),
    "a gap in a layer": (rlkit() | {"fc1/weight": np.ones((6, 9))}, "do not fit each other"),
    "heads of two sizes": (
        rlkit() | layer("last_fc_log_std", 3, 6, np.random.default_rng(0)),
        "do not fit each other",
    ),
    "wrong bias": (rlkit() | {"fc0/bias": np.ones(8)}, "fc0/bias has shape (8,)"),
    "no matrix": (rlkit() | {"fc0/weight": np.ones(8)}, "fc0/weight must be a matrix"),
    "not a number": (rlkit() | {"fc0/bias": np.full(7, np.nan)}, "fc0/bias must hold finite"),
    "text": (rlkit() | {"note": np.asarray("words")}, "note must hold finite numbers"),
    "too much": (rlkit() | {"norm/weight": np.ones(7)}, "norm/weight not understood"),
    "half a normaliser": (rlkit() | {"obs_norm/mean": np.ones(3)}, "obs_norm/var is missing"),
    "no scale": (
        sb3_on_policy() | {"obs_norm/var": np.zeros(3), "obs_norm/eps": np.float64(0)},
        "must be positive",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_controller_is_refused(case: str, tmp_path: Path) -> None:
    arrays, words = BROKEN[case]
    path = write(tmp_path, arrays)
    with pytest.raises(CharyError) as caught:
        read_controller(path)
    assert str(path) in str(caught.value) and words in str(caught.value)


def test_a_missing_file_says_what_a_controller_file_holds(tmp_path: Path) -> None:
    with pytest.raises(CharyError, match=r"no such controller file.*fc0, fc1"):
        read_controller(tmp_path / "none.npz")


class Bomb:
    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    planted = np.array([Bomb(tmp_path / "exploded")], object)
    np.savez(tmp_path / "a.npz", allow_pickle=True, **(rlkit() | {"fc0/weight": planted}))
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    for name in ("a.npz", "b.npz"):
        with pytest.raises(CharyError, match="not a readable npz file"):
            read_controller(tmp_path / name)
    assert not (tmp_path / "exploded").exists()


def test_every_real_policy_acts_row_by_row_as_in_a_batch(real_data: Path) -> None:
    paths = sorted((real_data / "policies").glob("*.npz"))
    assert len(paths) > 20
    for path in paths:
        controller = read_controller(path)
        (sizes,) = {sizes for robot, sizes in SIZES.items() if robot in path.name.lower()}
        assert controller.action_size == sizes[1]
        if "d4rl_ant" not in path.name:  # those see contact forces, or a waypoint
            assert controller.observation_size == sizes[0]
        rng = np.random.default_rng(0)
        batch = rng.standard_normal((4, controller.observation_size))
        actions = controller.act(batch)
        assert np.abs(actions).max() <= 1 and actions.std() > 0.01
        for observation, action in zip(batch, actions, strict=True):
            np.testing.assert_allclose(controller.act(observation), action, atol=1e-4)


@pytest.mark.parametrize("robot", ["hopper", "halfcheetah", "walker2d"])
def test_the_likelihood_of_d4rl_actions_is_the_stored_one(robot: str, real_data: Path) -> None:
    controller = read_controller(real_data / "policies" / f"d4rl_{robot}_medium_v2.npz")
    with h5py.File(real_data / "d4rl" / f"{robot}_medium-v2.hdf5") as file:
        columns = ("observations", "actions", "infos/action_log_probs")
        observations, actions, stored = (np.asarray(file[column]) for column in columns)
    # Close to 1, rounding an action to float32 moves its likelihood more than that.
    inside = np.abs(actions).max(axis=1) < 0.99
    assert inside.mean() > 0.5
    actions = actions[inside].astype(np.float64)
    mean, log_std = controller.gaussian(observations[inside])
    assert log_std is not None
    normal = -(((np.arctanh(actions) - mean) / np.exp(log_std)) ** 2) / 2 - log_std
    density = normal - np.log(2 * np.pi) / 2 - np.log(1 - actions**2 + 1e-6)
    error = np.abs(density.sum(axis=1) - stored[inside])
    assert np.median(error) < 1e-4 and error.max() < 2e-4


@pytest.mark.parametrize(("file", "least"), [("tqc", 3_500), ("ars", 3_200), ("trpo", 3_500)])
def test_trained_agents_hop(file: str, least: float, real_data: Path) -> None:
    """The very first episode: tqc 3638, ars 3288, trpo 3631 where this was written."""
    controller = read_controller(real_data / "policies" / f"sb3_{file}_Hopper-v3.npz")
    environment = gymnasium.make("Hopper-v5")
    observation, _ = environment.reset(seed=0)
    total, over = 0.0, False
    while not over:
        observation, reward, ended, cut, _ = environment.step(controller.act(observation))
        total, over = total + float(reward), ended or cut
    environment.close()
    assert total > least
