"""MSG with every kind of ensemble and every rule for targets."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chary
from chary import checkpoints
from chary.algos.msg import draw_noise, make_msg
from chary.algos.msg_config import MSGConfig
from chary.chunk import Carry, compile_chunk, initial_carry
from chary.data.dataset import Dataset
from chary.ensembles import ENSEMBLES, make_ensemble
from chary.errors import CharyError
from chary.targets import TARGETS
from chary.types import Batch
from tests.ensembles.shapes import ACTION, BATCH, OBSERVATION, make_inputs, make_shape

REFUSED = {(k, t) for k in ("mimo", "none") for t in ("shared-mean", "shared-lcb", "shared-min")}
KEY = jax.random.key(0)


def transitions(size: int = BATCH) -> Batch:
    rng = np.random.default_rng(0)

    def random(*sizes: int) -> jax.Array:
        return jnp.asarray(rng.uniform(-0.9, 0.9, (size, *sizes)), jnp.float32)

    return Batch(random(OBSERVATION), random(ACTION), random(), jnp.ones(size), random(OBSERVATION))


def config_of(ensemble: str, **changes: Any) -> MSGConfig:
    defaults = {"members": 3, "hidden": (4, 4), "warmup_steps": 0, "batch_size": BATCH}
    return MSGConfig(ensemble=ensemble, **{**defaults, **changes})


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def finite(tree: Any) -> bool:
    return all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("kind", ENSEMBLES)
def test_training_resumes_to_the_same_bits(kind: str, tmp_path: Path) -> None:
    """Through a checkpoint, with independent targets and all kinds' layers normalised."""
    algorithm = make_msg(config_of(kind, layer_norm=True), OBSERVATION, ACTION)
    chunk, data = compile_chunk(algorithm, BATCH), transitions(30)

    def start() -> Carry:
        return initial_carry(algorithm, BATCH, OBSERVATION, ACTION, seed=0)

    whole = chunk(start(), data, 0, 6, KEY)
    half = chunk(start(), data, 0, 2, KEY)
    checkpoints.save(tmp_path, 2, half)
    resumed = chunk(checkpoints.restore(tmp_path, 2, start()), data, 2, 6, KEY)
    assert bits(whole) == bits(resumed)
    assert finite(whole) and bits(whole.state.critics) != bits(half.state.critics)

    assert algorithm.values is not None
    values = [algorithm.values(whole.state, *make_inputs()) for _ in range(2)]
    assert bits(values[0]) == bits(values[1])
    assert values[0].shape == (1 if kind == "none" else 3, BATCH)
    if kind == "prior":
        begun = start().state.critics
        for now, before in zip(whole.state.critics, begun, strict=True):
            assert bits(now.prior) == bits(before.prior)
            assert bits(now.trained) != bits(before.trained)
        assert bits(begun.online.prior) != bits(begun.online.trained)


@pytest.mark.parametrize(
    ("kind", "targets"),
    [(k, t) for k in ENSEMBLES for t in TARGETS if t != "independent" and (k, t) not in REFUSED],
)
def test_every_pair_of_kind_and_targets_trains(kind: str, targets: str) -> None:
    """Pairs with independent targets are trained above."""
    alpha = 0.5 if targets == "double-q" else 0.0
    config = config_of(kind, targets=targets, alpha=alpha, hidden=(4,))
    algorithm = make_msg(config, OBSERVATION, ACTION)
    state, update = algorithm.init(KEY), jax.jit(algorithm.update)
    for step in range(3):
        state, metrics = update(state, transitions(), jax.random.fold_in(KEY, step))
        assert finite(state) and finite(metrics)


@pytest.mark.parametrize(("kind", "targets"), sorted(REFUSED))
def test_pairs_that_make_no_sense_are_refused(kind: str, targets: str) -> None:
    with pytest.raises(
        CharyError, match=f"ensemble {kind} does not go with --targets {targets}.*Use --targets"
    ):
        make_msg(config_of(kind, targets=targets), OBSERVATION, ACTION)


def test_a_pair_that_makes_no_sense_leaves_no_folder(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(CharyError, match="mimo does not go with"):
        chary.train("msg", dataset, run=tmp_path / "run", ensemble="mimo", targets="shared-min")
    assert not (tmp_path / "run").exists()


def test_changing_one_member_with_its_prior_leaves_the_others_unchanged_to_the_bit() -> None:
    algorithm = make_msg(config_of("prior", alpha=0.5), OBSERVATION, ACTION)
    state, update = algorithm.init(KEY), jax.jit(algorithm.update)
    online, target = (jax.tree.map(lambda x: x.at[1].add(0.7), tree) for tree in state.critics)
    changed = state._replace(critics=state.critics._replace(online=online, target=target))
    plain, _ = update(state, transitions(), KEY)
    other, _ = update(changed, transitions(), KEY)

    def member(state: Any, index: int) -> list[bytes]:
        return bits(jax.tree.map(lambda x: x[index], (state.critics, state.critic_optimiser.mu)))

    assert member(plain, 0) == member(other, 0) and member(plain, 2) == member(other, 2)
    assert member(plain, 1) != member(other, 1)


def test_values_of_arranged_rows_come_back_in_the_batchs_order() -> None:
    config = config_of("mimo")
    arrange = make_ensemble("mimo", make_shape()).arrange
    noise = draw_noise(config, 40, ACTION, shared=True, arrange=arrange, key=KEY)
    batch = jnp.arange(80.0).reshape(40, 2)
    seen = noise.arranged(batch)
    assert seen.shape == (3, 40, 2) and not np.array_equal(seen[0], seen[1])
    back = noise.in_order(jnp.moveaxis(seen, -1, 1))
    np.testing.assert_array_equal(back, np.broadcast_to(batch.T, (3, 2, 40)))
    plain = draw_noise(config, 40, ACTION, shared=True, key=KEY)
    assert plain.arranged(batch) is batch
