"""MSG with every kind of ensemble and every rule for targets."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chary
from chary.algos.msg import MSGState, make_msg
from chary.algos.msg_config import MSGConfig
from chary.algos.msg_noise import draw_noise
from chary.data.dataset import Dataset
from chary.ensembles import ENSEMBLES, make_ensemble
from chary.errors import CharyError
from chary.execution.program import Carry, compile_chunk, initial_carry
from chary.networks.targets import TARGETS
from chary.runs import checkpoints
from chary.types import Algorithm, Batch, Metrics
from tests.ensembles.shapes import (
    ACTION,
    BATCH,
    OBSERVATION,
    make_inputs,
    make_shape,
    random_tree,
)

SHARED = ("shared-mean", "shared-lcb", "shared-min")
REFUSED = {(kind, rule) for kind in ("mimo", "none") for rule in SHARED}
# Rules of one program each: they differ in two functions, between which a number chooses. Members that
# share no weights draw their actions differently with independent targets; those are trained elsewhere
# (`tests/algos/test_msg.py`, and the test of priors below), and double-Q with all kinds.
ONE_PROGRAM = {
    "deep": SHARED,
    "prior": SHARED,
    "mimo": ("independent",),
    "none": ("independent",),
    **dict.fromkeys(("multihead", "batch", "tree", "dropout"), (*SHARED, "independent")),
}
ELSEWHERE = {("deep", "independent"), ("prior", "independent")}
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


def begin(algorithm: Algorithm[MSGState]) -> MSGState:
    """A state with random networks, without compiling a program that draws them."""
    like = jax.eval_shape(algorithm.init, KEY)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    hyper = jax.jit(lambda: algorithm.init(KEY).hyper)()
    networks = random_tree(like.critics.online)
    return zeros._replace(
        policy=zeros.policy._replace(params=random_tree(like.policy.params)),
        critics=like.critics._replace(online=networks, target=networks),
        hyper=hyper,
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ENSEMBLES)
def test_double_q_of_every_kind_trains_and_resumes_to_the_same_bits(
    kind: str, tmp_path: Path
) -> None:
    config = config_of(kind, targets="double-q", alpha=0.5, layer_norm=True)
    algorithm = make_msg(config, OBSERVATION, ACTION)
    chunk, data = compile_chunk(algorithm, BATCH), transitions(30)
    shapes = jax.eval_shape(lambda: initial_carry(algorithm, BATCH, OBSERVATION, ACTION, seed=0))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    first = zeros._replace(state=begin(algorithm))

    def start() -> Carry:  # a chunk uses up what it is given
        return jax.tree.map(jnp.copy, first)

    whole = chunk(start(), data, 0, 6, KEY)
    half = chunk(start(), data, 0, 2, KEY)
    checkpoints.save(tmp_path, 2, half)
    resumed = chunk(checkpoints.restore(tmp_path, 2, zeros), data, 2, 6, KEY)
    assert bits(whole) == bits(resumed)
    assert finite(whole) and bits(whole.state.critics) != bits(half.state.critics)

    assert algorithm.values is not None
    asked = jax.jit(algorithm.values)
    values = [asked(whole.state, *make_inputs()) for _ in range(2)]
    assert bits(values[0]) == bits(values[1])
    assert values[0].shape == (1 if kind == "none" else 3, BATCH)
    if kind == "prior":
        begun = start().state.critics
        for now, before in zip(whole.state.critics, begun, strict=True):
            assert bits(now.prior) == bits(before.prior)
            assert bits(now.trained) != bits(before.trained)


@pytest.mark.parametrize("kind", ONE_PROGRAM)
def test_every_kind_trains_with_every_rule_for_targets(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ONE_PROGRAM[kind]
    rules = [TARGETS[name] for name in names]
    config = config_of(kind, targets=names[0], alpha=0.0, member_rows="whole")

    @jax.jit
    def update(which: jax.Array, state: MSGState, key: jax.Array) -> tuple[MSGState, Metrics]:
        def chosen(*functions: Any) -> Any:
            return lambda *arguments: jax.lax.switch(which, functions, *arguments)

        rule = rules[0]._replace(
            backup=chosen(*(rule.backup for rule in rules)),
            objective=chosen(*(rule.objective for rule in rules)),
        )
        monkeypatch.setitem(TARGETS, names[0], rule)
        return make_msg(config, OBSERVATION, ACTION).update(state, transitions(), key)

    start = begin(make_msg(config, OBSERVATION, ACTION))
    ends = []
    for which in range(len(names)):
        state, metrics = start, {}
        for step in range(3):
            state, metrics = update(jnp.int32(which), state, jax.random.fold_in(KEY, step))
        assert finite(state) and finite(metrics), names[which]
        ends.append(bits(state.critics)[0])
    assert len(set(ends)) == len(names)


def test_every_pair_is_trained_or_refused() -> None:
    trained = {(kind, rule) for kind, rules in ONE_PROGRAM.items() for rule in rules}
    double = {(kind, "double-q") for kind in ENSEMBLES}
    pairs = {(kind, rule) for kind in ENSEMBLES for rule in TARGETS}
    assert trained | double | ELSEWHERE | REFUSED == pairs
    assert not (trained | double | ELSEWHERE) & REFUSED


@pytest.mark.parametrize(("kind", "targets"), sorted(REFUSED))
def test_pairs_that_make_no_sense_are_refused(kind: str, targets: str) -> None:
    with pytest.raises(
        CharyError,
        match=f"ensemble {kind} cannot be combined with --targets {targets}.*Use --targets",
    ):
        make_msg(config_of(kind, targets=targets), OBSERVATION, ACTION)


def test_a_pair_that_makes_no_sense_leaves_no_folder(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(CharyError, match="mimo cannot be combined with"):
        chary.train("msg", dataset, run=tmp_path / "run", ensemble="mimo", targets="shared-min")
    assert not (tmp_path / "run").exists()


def test_changing_one_member_with_its_prior_leaves_the_others_unchanged_to_the_bit() -> None:
    algorithm = make_msg(config_of("prior", alpha=0.5), OBSERVATION, ACTION)
    state, update = begin(algorithm), jax.jit(algorithm.update)
    online, target = (jax.tree.map(lambda x: x.at[1].add(0.7), tree) for tree in state.critics)
    changed = state._replace(critics=state.critics._replace(online=online, target=target))
    plain, _ = update(state, transitions(), KEY)
    other, _ = update(changed, transitions(), KEY)

    def member(state: Any, index: int) -> list[bytes]:
        return bits(jax.tree.map(lambda x: x[index], (state.critics, state.critic_optimiser.mu)))

    assert finite(plain)
    assert member(plain, 0) == member(other, 0) and member(plain, 2) == member(other, 2)
    assert member(plain, 1) != member(other, 1)


def test_values_of_arranged_rows_come_back_in_the_batchs_order() -> None:
    config = config_of("mimo")
    arrange = make_ensemble("mimo", make_shape()).arrange
    noise = draw_noise(config, 40, ACTION, shared=True, arrange=arrange, key=KEY)
    batch = jnp.arange(80.0).reshape(40, 2)
    seen = noise.arranged(batch)
    assert seen.shape == (3, 40, 2) and not np.array_equal(seen[0], seen[1])
    back = noise.in_order(jnp.moveaxis(seen, -1, 1), 40)
    np.testing.assert_array_equal(back, np.broadcast_to(batch.T, (3, 2, 40)))
    plain = draw_noise(config, 40, ACTION, shared=True, key=KEY)
    assert plain.arranged(batch) is batch
