from pathlib import Path

import h5py
import numpy as np
import pytest

from chary.cli import main
from chary.data import formats
from chary.data.collect import locomotion
from chary.data.collect.controllers import Controller, read_controller
from chary.data.collect.locomotion import Job, collect_block, collect_locomotion, find, share_out
from chary.envs import find_task
from chary.errors import CharyError


@pytest.fixture
def hoppers(real_data: Path) -> tuple[Controller, Controller]:
    """A middling and a good one."""
    folder = real_data / "policies"
    names = ("d4rl_hopper_medium_v2", "sb3_tqc_Hopper-v3")
    medium, expert = (read_controller(folder / f"{name}.npz") for name in names)
    return medium, expert


def test_names() -> None:
    assert find("hopper") == ("hopper", "")
    assert find("hopper-v2") == ("hopper", "")
    assert find("ant-medium-expert-v2") == ("ant", "-medium-expert")
    assert find("walker2d-random") == ("walker2d", "-random")
    for name in ("hopper-replay", "hopper-", "humanoid-random", "antmaze-umaze-v2", "hopper-v"):
        assert find(name) is None


def test_shares() -> None:
    assert share_out(10, [1.0, 1.0]) == [5, 5]
    assert share_out(10, [1.0, 1.0, 1.0]) == [3, 4, 3]
    assert share_out(1000, [0.1, 0.9]) == [100, 900]
    for shares in ([1.0, 0.0], [1.0, -1.0], [1.0, float("nan")]):
        with pytest.raises(CharyError, match="must be positive"):
            share_out(10, shares)
    with pytest.raises(CharyError, match="too few"):
        share_out(10, [1.0, 1000.0])


def test_rows_follow_from_each_other_and_from_the_recorded_state(
    hoppers: tuple[Controller, Controller],
) -> None:
    block = collect_block(Job("hopper", hoppers[0], 0.3, False, 600, seed=0, block=0))
    ends = block["terminals"] | block["timeouts"]
    assert ends[-1] and 2 <= ends.sum() < 30 and block["terminals"].sum() == ends.sum() - 1
    going_on = ~ends[:-1]
    np.testing.assert_array_equal(
        block["next_observations"][:-1][going_on], block["observations"][1:][going_on]
    )
    np.testing.assert_allclose(
        block["observations"][:, :5], block["infos/qpos"][:, 1:], rtol=1e-6, atol=1e-6
    )
    task = find_task("hopper")
    assert task is not None
    environment = task.make()
    environment.reset(seed=0)
    simulator = environment.unwrapped
    for row in range(0, 600, 50):
        simulator.set_state(block["infos/qpos"][row], block["infos/qvel"][row])  # pyright: ignore[reportAttributeAccessIssue]
        after, reward, ended, _, _ = environment.step(block["actions"][row])
        np.testing.assert_allclose(after, block["next_observations"][row], atol=1e-3)
        assert (ended, reward) == (
            block["terminals"][row],
            pytest.approx(block["rewards"][row], abs=1e-3),
        )


def test_an_episode_cut_by_the_clock_is_no_end_of_the_task() -> None:
    block = collect_block(Job("halfcheetah", None, 0.0, False, 1_100, seed=0, block=0))
    assert not block["terminals"].any()
    assert np.flatnonzero(block["timeouts"]).tolist() == [999, 1_099]
    # Random actions are uniform.
    assert abs(block["actions"].mean()) < 0.05
    assert block["actions"].std() == pytest.approx(1 / np.sqrt(3), abs=0.02)


def test_sampled_deterministic_and_noisy_actions(hoppers: tuple[Controller, Controller]) -> None:
    def block(noise: float, deterministic: bool) -> tuple[np.ndarray, np.ndarray]:
        job = Job("hopper", hoppers[1], noise, deterministic, 100, seed=0, block=0)
        columns = collect_block(job)
        return columns["actions"], hoppers[1].act(columns["observations"])

    # Float32 observations are all that is left of the ones the policy saw.
    np.testing.assert_allclose(*block(0.0, True), atol=1e-4)
    for noise, deterministic in ((0.0, False), (0.1, True)):
        actions, typical = block(noise, deterministic)
        assert np.abs(actions - typical).mean() > 0.02
        assert np.abs(actions).max() <= 1


@pytest.mark.usefixtures("in_process")
def test_policies_in_their_proportions(
    hoppers: tuple[Controller, Controller], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locomotion, "BLOCK", 100)
    out = tmp_path / "data.hdf5"
    dataset = collect_locomotion(
        "hopper", hoppers, shares=[3.0, 1.0], out=out, transitions=400, deterministic=True
    )
    assert dataset.size == 400
    medium, expert = (
        np.abs(policy.act(dataset.observations) - dataset.actions).max(axis=1) for policy in hoppers
    )
    assert (medium[:300] < 1e-3).all() and (expert[300:] < 1e-3).all()
    assert (expert[:300] > 1e-3).mean() > 0.9
    again = formats.read(out)
    assert again.fingerprint == dataset.fingerprint
    assert all(policy.fingerprint[:12] in again.metadata["collected_by"] for policy in hoppers)
    with h5py.File(out) as file:
        assert np.asarray(file["infos/qpos"]).shape == (400, 6)


@pytest.mark.usefixtures("in_process")
def test_random_needs_no_policy_and_the_name_brings_the_task(tmp_path: Path) -> None:
    for name in ("walker2d-random", "walker2d-random-v2"):
        dataset = collect_locomotion(name, [], out=tmp_path / "data.npz", transitions=50)
        assert dataset.name == name and find_task(dataset.name) is not None
        assert "random actions" in dataset.metadata["collected_by"]


NUMBERS = {
    ("hopper-random", 1): "made from no policy, but 1 given",
    ("hopper-medium", 0): "made from 1 policy file(s), but 0 given",
    ("hopper-expert-v2", 2): "made from 1 policy file(s), but 2 given",
    ("hopper-medium-expert", 1): "made from 2 policy file(s), but 1 given",
    ("hopper-mixed", 1): "made from 2 policy file(s) or more, but 1 given",
    ("hopper", 0): "made from 1 policy file(s) or more, but 0 given",
}


@pytest.mark.parametrize(("name", "given"), NUMBERS)
def test_each_name_needs_its_number_of_policies(
    name: str, given: int, hoppers: tuple[Controller, Controller], tmp_path: Path
) -> None:
    with pytest.raises(CharyError) as caught:
        collect_locomotion(name, hoppers[:given], out=tmp_path / "data.npz")
    assert NUMBERS[name, given] in str(caught.value)


@pytest.mark.usefixtures("in_process")
def test_the_command(
    real_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    policies = real_data.absolute() / "policies"
    hopper, cheetah = policies / "sb3_ars_Hopper-v3.npz", policies / "sb3_ars_HalfCheetah-v3.npz"
    ant = policies / "d4rl_ant_goal_reaching.npz"
    out = tmp_path / "data.npz"

    def collect(*words: object) -> str:
        code = main(["data", "collect", *map(str, words)])
        printed = capsys.readouterr()
        assert code == (2 if printed.err else 0)
        return printed.err or printed.out

    mixed = ["--policy", f"{hopper}:0.25", "--policy", f"{hopper}:0.75"]
    assert '"transitions": 40' in collect("hopper", *mixed, "--steps", 40, "--out", out, "--json")
    assert "already there" in collect("hopper", *mixed, "--steps", 40, "--out", out)
    assert '"file": "antmaze-umaze-v2.hdf5"' in collect(
        "antmaze-umaze-v2", "--controller", ant, "--steps", 30, "--json"
    )
    out = tmp_path / "another.npz"
    assert "no such controller file" in collect("hopper", "--policy", "none.npz", "--out", out)
    assert "another robot" in collect("hopper", "--policy", cheetah, "--out", out)
    assert "not a share" in collect("hopper", "--policy", f"{hopper}:much", "--out", out)
    some = ["--policy", f"{hopper}:1", "--policy", hopper]
    assert "give a share to every file" in collect("hopper", *some, "--out", out)
    assert "needs one goal-reaching ant, but 0 given" in collect("antmaze-umaze-v2", "--out", out)
    assert "--noise is -1.0" in collect("hopper-random", "--noise", -1, "--out", out)
    assert "controller of its own" in collect("pointmaze-umaze", "--policy", hopper)
    assert "Did you mean hopper-mixed" in collect("hopper-mixd", "--out", out)
