"""Ensembles that share weights, trained as MSG's authors train them, against plain NumPy.

The expected numbers are written from the paper and from what its authors' code does: targets and losses
member by member, row by row, and derivatives by differences. Nothing here calls what it tests.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.algos.msg import MSGState, make_msg
from chary.algos.msg_config import MSGConfig
from chary.algos.msg_noise import draw_noise
from chary.ensembles import make_ensemble
from chary.errors import CharyError
from chary.types import Batch

OBSERVATION, ACTION, ROWS, MEMBERS = 3, 2, 4, 2
ALPHA, BETA, DISCOUNT = 0.7, -2.0, 0.99
Arrays = list[np.ndarray]


def config_of(ensemble: str, **changes: Any) -> MSGConfig:
    defaults: dict[str, Any] = {
        "members": MEMBERS,
        "hidden": (3,),
        "warmup_steps": 0,
        "batch_size": ROWS,
        "alpha": ALPHA,
        "beta": BETA,
        "entropy": "off",
        "policy_learning_rate": 3e-4,
    }
    return MSGConfig(ensemble=ensemble, **{**defaults, **changes})


def make_rows() -> Batch:
    rng = np.random.default_rng(3)
    return Batch(
        observations=jnp.asarray(rng.standard_normal((ROWS, OBSERVATION)), jnp.float32),
        actions=jnp.asarray(rng.uniform(-0.9, 0.9, (ROWS, ACTION)), jnp.float32),
        rewards=jnp.asarray(rng.standard_normal(ROWS), jnp.float32),
        discounts=jnp.asarray([1.0, 0.0, 1.0, 1.0], jnp.float32),
        next_observations=jnp.asarray(rng.standard_normal((ROWS, OBSERVATION)), jnp.float32),
    )


def doubles(tree: Any) -> Arrays:
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]


def moved(state: MSGState) -> MSGState:
    """Random biases, so that no unit sits where ReLU has no derivative, and targets of their own."""
    rng = np.random.default_rng(1)
    return state._replace(
        critics=jax.tree.map(
            lambda x: x + 0.3 * rng.standard_normal(x.shape, np.float32), state.critics
        )
    )


# ---- the networks -----------------------------------------------------------------------------------


def one_hidden_layer(layers: Arrays, inputs: np.ndarray) -> np.ndarray:
    weight, bias, last_weight, last_bias = layers
    return np.maximum(inputs @ weight + bias, 0.0) @ last_weight + last_bias


def multihead(params: Arrays, member_inputs: np.ndarray) -> np.ndarray:
    """(member, row): output i of one network, at member i's inputs."""
    return np.stack([one_hidden_layer(params, member_inputs[i])[:, i] for i in range(MEMBERS)])


def mimo(params: Arrays, member_inputs: np.ndarray) -> np.ndarray:
    """(member, row): all members' inputs side by side, output i for member i."""
    return one_hidden_layer(params, np.concatenate(list(member_inputs), axis=1)).T


def batch_ensemble(params: Arrays, member_inputs: np.ndarray) -> np.ndarray:
    """(member, row): shared weights, times the outer product of a member's two vectors."""
    weight, r, s, bias, last_weight, last_r, last_s, last_bias = params
    values = []
    for i in range(MEMBERS):
        own = weight * np.outer(r[i, 0], s[i, 0])
        last = last_weight * np.outer(last_r[i, 0], last_s[i, 0])
        layers = [own, bias[i, 0], last, last_bias[i, 0]]
        values.append(one_hidden_layer(layers, member_inputs[i])[:, 0])
    return np.stack(values)


NETWORKS: dict[str, Callable[[Arrays, np.ndarray], np.ndarray]] = {
    "multihead": multihead,
    "mimo": mimo,
    "batch": batch_ensemble,
}


class Authors:
    """Losses of one step in double precision."""

    def __init__(self, ensemble: str, heads: int, state: MSGState, batch: Batch, noise: Any):
        self.network, self.heads = NETWORKS[ensemble], heads
        self.batch = jax.tree.map(lambda x: np.asarray(x, np.float64), batch)
        self.policy, self.target = doubles(state.policy.params), doubles(state.critics.target)
        self.draws = np.asarray(noise.member_actions, np.float64)
        self.weights = np.asarray(noise.weights, np.float64)
        everything = np.tile(np.arange(ROWS), (MEMBERS, 1))
        self.rows = everything if noise.rows is None else np.asarray(noise.rows)

    def values(self, params: Arrays, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """(head, member, row), each member at its own rows; a head is a complete network."""
        pairs = np.concatenate([observations, actions], axis=1)[self.rows]
        if self.heads == 1:
            return self.network(params, pairs)[None]
        return np.stack([self.network([p[h] for p in params], pairs) for h in range(self.heads)])

    def sampled(self, observations: np.ndarray) -> np.ndarray:
        """One action a row, the same for all members."""
        weight, bias, loc, loc_bias, scale, scale_bias = self.policy
        features = np.maximum(observations @ weight + bias, 0.0)
        spread = np.log1p(np.exp(features @ scale + scale_bias)) + 0.01
        return np.tanh(features @ loc + loc_bias + spread * self.draws)

    def critic_loss(self, critics: Arrays) -> float:
        batch, total = self.batch, 0.0
        following = self.sampled(batch.next_observations)
        next_values = self.values(self.target, batch.next_observations, following).min(axis=0)
        logged = self.values(critics, batch.observations, batch.actions)
        own = self.values(critics, batch.observations, self.sampled(batch.observations))
        for i in range(MEMBERS):
            errors = []
            for head in range(self.heads):
                for place, row in enumerate(self.rows[i]):
                    kept = DISCOUNT * batch.discounts[row] * next_values[i, place]
                    error = (logged[head, i, place] - batch.rewards[row] - kept) ** 2
                    # A weight belongs to a row of the batch; a share of it is counted from its start.
                    weight = row if self.weights.shape[-1] == ROWS else place
                    errors.append(self.weights[i, head, weight] * error)
            gap = own[:, i].min(axis=0) - logged[:, i].min(axis=0)
            total += 0.5 * np.mean(errors) + ALPHA * np.mean(gap)
        return float(total)


def differences(loss: Callable[[Arrays], float], params: Arrays) -> Arrays:
    gradients = [np.zeros_like(p) for p in params]
    for param, gradient in zip(params, gradients, strict=True):
        for index in np.ndindex(param.shape):
            kept = param[index]
            param[index] = kept + 1e-6
            above = loss(params)
            param[index] = kept - 1e-6
            gradient[index] = (above - loss(params)) / 2e-6
            param[index] = kept
    return gradients


@pytest.mark.parametrize(
    ("ensemble", "rows", "targets"),
    [
        pytest.param("multihead", "whole", "double-q", marks=pytest.mark.long),
        ("mimo", "whole", "independent"),
        pytest.param("batch", "auto", "independent", marks=pytest.mark.long),
        pytest.param("batch", "auto", "double-q", marks=pytest.mark.long),
    ],
)
def test_the_critics_learn_what_the_authors_critics_learn(
    ensemble: str, rows: str, targets: str
) -> None:
    config = config_of(ensemble, targets=targets, member_rows=rows)
    algorithm = make_msg(config, OBSERVATION, ACTION)
    state, batch, key = (
        moved(algorithm.init(jax.random.key(0))),
        make_rows(),
        jax.random.key(2),
    )
    arrange = make_ensemble(ensemble, config.shape(OBSERVATION, ACTION)).arrange
    noise = draw_noise(config, ROWS, ACTION, shared=True, arrange=arrange, key=key)
    heads = 2 if targets == "double-q" else 1
    assert noise.weights.shape == (MEMBERS, heads, ROWS // MEMBERS if rows == "auto" else ROWS)
    if ensemble == "mimo":
        assert noise.rows is not None and not np.array_equal(noise.rows[0], noise.rows[1])
    authors = Authors(ensemble, heads, state, batch, noise)
    after, metrics = jax.jit(algorithm.update)(state, batch, key)
    found = MEMBERS * (float(metrics["critic/td"]) + ALPHA * float(metrics["critic/regulariser"]))
    critics = doubles(state.critics.online)
    assert found == pytest.approx(authors.critic_loss(critics), rel=1e-6, abs=1e-5)
    expected = differences(authors.critic_loss, critics)
    for mine, theirs in zip(doubles(after.critic_optimiser.mu), expected, strict=True):
        np.testing.assert_allclose(mine, 0.1 * theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("ensemble", "given", "used"),
    [
        ("multihead", None, 1), ("mimo", None, 1), ("batch", None, 0),
        ("multihead", 0, 0), ("batch", 1, 1),
    ],
)  # fmt: skip
def test_the_bound_has_the_authors_degrees_of_freedom(
    ensemble: str, given: int | None, used: int
) -> None:
    config = config_of(ensemble, members=4, ddof=given)
    algorithm = make_msg(config, OBSERVATION, ACTION)
    state, batch, key = algorithm.init(jax.random.key(0)), make_rows(), jax.random.key(2)
    _, metrics = jax.jit(algorithm.update)(state, batch, key)
    assert algorithm.values is not None and algorithm.beta is not None
    noise = draw_noise(config, ROWS, ACTION, shared=True, key=key)
    distribution = state.policy.params(batch.observations)
    actions = distribution.sample(noise.policy_actions)
    values = np.asarray(algorithm.values(state, batch.observations, actions), np.float64)
    bound = values.mean(axis=0) + BETA * values.std(axis=0, ddof=used)
    assert float(metrics["policy/objective"]) == pytest.approx(bound.mean(), abs=1e-5)
    shown = values.mean(axis=0) + float(algorithm.beta(state)) * values.std(axis=0)
    np.testing.assert_allclose(shown, bound, rtol=1e-5, atol=1e-5)


def test_one_member_has_no_deviation_whatever_the_degrees_of_freedom() -> None:
    algorithm = make_msg(config_of("multihead", members=1), OBSERVATION, ACTION)
    state = algorithm.init(jax.random.key(0))
    after, metrics = jax.jit(algorithm.update)(state, make_rows(), jax.random.key(0))
    assert float(metrics["policy/std"]) == 0.0
    assert all(np.isfinite(leaf).all() for leaf in doubles(after))


@pytest.mark.parametrize("ensemble", ["multihead", "mimo", "batch", "tree", "dropout"])
def test_the_two_networks_of_a_pair_share_nothing(ensemble: str) -> None:
    config = config_of(ensemble, targets="double-q")
    made = make_ensemble(ensemble, config.shape(OBSERVATION, ACTION))
    params, batch = made.init(jax.random.key(0)), make_rows()

    @jax.jit
    def gradients() -> tuple[Any, Any]:
        heads, back = jax.vjp(lambda p: made.heads(p, batch.observations, batch.actions), params)
        first = jnp.zeros_like(heads).at[:, 0].set(1.0)
        return back(first)[0], back(1.0 - first)[0]

    touched = ([leaf != 0 for leaf in doubles(gradient)] for gradient in gradients())
    assert not any((a & b).any() for a, b in zip(*touched, strict=True))
    first = jax.tree.leaves(params)[0]
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize("ensemble", ["deep", "batch", "multihead", "tree"])
def test_a_share_of_the_rows_teaches_one_member_only(ensemble: str) -> None:
    """Changing a row changes the loss of the member whose row it is, and no other's."""
    config = config_of(
        ensemble, member_rows="split", alpha=0.0, critic_learning_rate=1e-2, random_weights=False
    )
    algorithm = make_msg(config, OBSERVATION, ACTION)
    state, batch = algorithm.init(jax.random.key(0)), make_rows()
    changed = batch._replace(rewards=batch.rewards.at[0].add(5.0))
    update = jax.jit(algorithm.update)
    ends = [update(state, b, jax.random.key(0))[0].critic_optimiser.mu for b in (batch, changed)]
    if ensemble == "deep":
        by_member = [
            all(np.array_equal(a[i], b[i]) for a, b in zip(*map(doubles, ends), strict=True))
            for i in range(MEMBERS)
        ]
        assert by_member == [False, True]
    assert any(not np.array_equal(a, b) for a, b in zip(*map(doubles, ends), strict=True))


def test_rows_are_split_for_batch_ensembles_unless_asked_otherwise() -> None:
    assert config_of("batch").splits_rows and not config_of("deep").splits_rows
    assert not config_of("batch", member_rows="whole").splits_rows
    whole = config_of("batch", member_rows="whole")
    noise = draw_noise(whole, ROWS, ACTION, shared=True, key=jax.random.key(0))
    assert noise.rows is None and noise.weights.shape == (MEMBERS, 1, ROWS)


@pytest.mark.parametrize(
    ("ensemble", "changes", "words"),
    [
        ("batch", {"members": 3}, "--batch-size is 4, but must be a multiple of .*members .3."),
        ("mimo", {"member_rows": "split"}, "--member-rows split cannot be combined with"),
        ("deep", {"member_rows": "split", "targets": "shared-min"}, "no next value to share"),
    ],
)
def test_shares_that_make_no_sense(ensemble: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CharyError, match=words):
        config_of(ensemble, **changes)
