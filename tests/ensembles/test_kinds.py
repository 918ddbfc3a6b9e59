"""What each kind of ensemble is, proved on small ones."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chary.algos.msg_config import MSGConfig
from chary.config import to_json
from chary.ensembles import ENSEMBLES, EnsembleShape, make_ensemble
from chary.ensembles.batch import make_batch
from chary.ensembles.deep import make_deep
from chary.ensembles.dropout import make_dropout
from chary.ensembles.mimo import make_mimo
from chary.ensembles.multihead import make_multihead
from chary.ensembles.prior import make_prior
from chary.ensembles.tree import Tree, make_tree
from chary.networks.layers import MLP, Dense
from tests.ensembles.shapes import (
    ACTION,
    BATCH,
    OBSERVATION,
    make_inputs,
    make_shape,
    random_params,
)

KEY = jax.random.key(0)
INPUTS = OBSERVATION + ACTION


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


# ---- all kinds ---------------------------------------------------------------------------------------


def expected_parameters(kind: str, shape: EnsembleShape) -> int:
    """The formulas of docs/ensembles.md."""
    networks, norm = shape.members * shape.heads, 2 if shape.layer_norm else 0

    def hidden(*sizes: int) -> int:
        return sum((a + 1 + norm) * b for a, b in pairwise(sizes))

    def network(inputs: int, outputs: int) -> int:
        return hidden(inputs, 6, 5) + (5 + 1) * outputs

    sizes, k = (INPUTS, 6, 5), shape.shared_layers
    vectors = sum(a + 2 * b for a, b in pairwise((*sizes, 1))) + norm * (6 + 5)
    members, heads = shape.members, shape.heads  # two heads are two of everything
    return {
        "deep": networks * network(INPUTS, 1),
        "multihead": heads * network(INPUTS, members),
        "mimo": heads * network(members * INPUTS, members),
        "batch": heads * (INPUTS * 6 + 6 * 5 + 5 + members * vectors),
        "tree": heads * (hidden(*sizes[: k + 1]) + members * (hidden(*sizes[k:]) + 5 + 1)),
        "prior": 2 * networks * network(INPUTS, 1),
        "dropout": heads * network(INPUTS, 1),
        "none": networks * network(INPUTS, 1),
    }[kind]


@pytest.mark.parametrize("kind", ENSEMBLES)
@pytest.mark.parametrize("changes", [{}, {"heads": 2, "layer_norm": True}], ids=str)
def test_parameters_are_as_many_as_the_formula_says(kind: str, changes: dict[str, Any]) -> None:
    for more in ({}, {"members": 1}, {"shared_layers": 0}, {"shared_layers": 2}):
        shape = make_shape(**changes, **more)
        params = jax.eval_shape(make_ensemble(kind, shape).init, KEY)
        count = sum(leaf.size for leaf in jax.tree.leaves(params))
        assert count == expected_parameters(kind, shape), more


@pytest.mark.parametrize("kind", ENSEMBLES)
@pytest.mark.parametrize("members", [1, 3])
def test_values_are_one_a_member(kind: str, members: int) -> None:
    for heads, layer_norm in ((1, False), (2, True)):
        shape = make_shape(members=members, heads=heads, layer_norm=layer_norm)
        ensemble = make_ensemble(kind, shape)
        params = jax.eval_shape(ensemble.init, KEY)
        found = jax.eval_shape(ensemble.heads, params, *make_inputs())
        assert found.shape == (members, heads, BATCH) and found.dtype == jnp.float32
        assert jax.eval_shape(ensemble.values, params, *make_inputs()).shape == (members, BATCH)


@pytest.mark.parametrize("kind", ENSEMBLES)
def test_members_differ_and_say_the_same_every_time(kind: str) -> None:
    ensemble = make_ensemble(kind, make_shape(dropout=0.5, hidden=(16, 16)))
    params = random_params(ensemble)
    heads = ensemble.heads(params, *make_inputs())
    assert bool(jnp.isfinite(heads).all())
    assert len(np.unique(np.asarray(heads)[:, 0, 0])) == 3
    np.testing.assert_array_equal(ensemble.values(params, *make_inputs()), heads.min(axis=1))


SHARING = [
    ("deep", {}, False),
    ("prior", {}, False),
    ("tree", {"shared_layers": 0}, False),
    ("tree", {"shared_layers": 1}, True),
    ("multihead", {}, True),
    ("mimo", {}, True),
    ("batch", {}, True),
    ("dropout", {}, True),
]


@pytest.mark.parametrize(("kind", "changes", "shares"), SHARING)
def test_kinds_say_truly_whether_members_share_weights(
    kind: str, changes: dict[str, Any], shares: bool
) -> None:
    ensemble = make_ensemble(kind, make_shape(**changes))
    params, inputs = random_params(ensemble), make_inputs()

    @jax.jit
    def gradients(i: int) -> Any:
        return jax.grad(lambda p: ensemble.values(p, *inputs)[i].sum())(params)

    slopes = [jax.tree.leaves(gradients(i)) for i in (0, 1)]
    overlap = [bool(((a != 0) & (b != 0)).any()) for a, b in zip(*slopes, strict=True)]
    assert any(overlap) == shares == ensemble.shares_weights


# ---- deep ---------------------------------------------------------------------------------------------


def test_every_member_and_head_is_a_network_of_its_own() -> None:
    ensemble = make_deep(make_shape(heads=2))
    params = random_params(ensemble)
    observations, actions = make_inputs()
    together = ensemble.heads(params, observations, actions)
    pairs = jnp.concatenate([observations, actions], axis=-1)
    for member in range(3):
        for head in range(2):
            network = jax.tree.map(lambda x: x[member, head], params)
            close(together[member, head], network(pairs)[:, 0])


def test_inputs_may_be_shared_or_each_members_own() -> None:
    ensemble = make_deep(make_shape())
    params = random_params(ensemble)
    observations, _ = make_inputs()
    _, actions = make_inputs(3)
    own = ensemble.heads(params, observations, actions)
    for member in range(3):
        close(own[member], ensemble.heads(params, observations, actions[member])[member])


def test_no_ensemble_is_one_network_whatever_was_given() -> None:
    config = MSGConfig(ensemble="none", members=8)
    assert config.members == 1 and to_json(config)["members"] == 1
    assert config.shape(OBSERVATION, ACTION).members == 1


# ---- multi-head and tree -----------------------------------------------------------------------------


def test_a_heads_gradient_does_not_touch_another_heads_output_weights() -> None:
    ensemble = make_multihead(make_shape())
    params, inputs = random_params(ensemble), make_inputs()
    slope = jax.grad(lambda p: ensemble.values(p, *inputs)[1].sum())(params)
    last = slope.layers[-1]
    assert last.weight[:, 1].any() and last.bias[1] != 0
    assert not last.weight[:, [0, 2]].any() and not last.bias[jnp.array([0, 2])].any()
    assert slope.layers[0].weight.any()


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_tree_that_shares_nothing_is_a_deep_ensemble(layer_norm: bool) -> None:
    shape = make_shape(shared_layers=0, heads=2, layer_norm=layer_norm)
    deep, tree = make_deep(shape), make_tree(shape)
    params = random_params(deep)
    observations, _ = make_inputs()
    _, actions = make_inputs(3)
    np.testing.assert_array_equal(
        tree.heads(Tree((), params), observations, actions),
        deep.heads(params, observations, actions),
    )


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_tree_that_shares_all_hidden_layers_is_a_multi_head_one(layer_norm: bool) -> None:
    shape = make_shape(shared_layers=2, heads=2, layer_norm=layer_norm)
    params = random_params(make_tree(shape))
    (last,) = params.branches.layers
    outputs = Dense(last.weight.reshape(6, 5).T, last.bias.reshape(6))
    network = MLP((*params.trunk, outputs))
    close(
        make_tree(shape).heads(params, *make_inputs()),
        make_multihead(shape).heads(network, *make_inputs()),
    )


def test_a_branch_of_a_tree_is_a_network_on_the_trunks_features() -> None:
    shape = make_shape(shared_layers=1)
    params = random_params(make_tree(shape))
    found = make_tree(shape).heads(params, *make_inputs())
    for member in range(3):
        branch = jax.tree.map(lambda x: x[member, 0], params.branches)
        whole = MLP((*params.trunk, *branch.layers))
        close(found[member, 0], whole(jnp.concatenate(make_inputs(), axis=-1))[:, 0])


# ---- MIMO ---------------------------------------------------------------------------------------------


def test_mimo_without_cross_weights_is_independent_networks() -> None:
    shape = make_shape(members=2, hidden=(3, 2))
    networks = random_params(make_deep(shape))
    mimo = make_mimo(shape._replace(hidden=(6, 4)))
    layers = []
    for layer in networks.layers:
        a, b = layer.weight.shape[-2:]
        weight = jnp.zeros((2 * a, 2 * b))
        for member in range(2):
            rows, columns = (slice(member * n, (member + 1) * n) for n in (a, b))
            weight = weight.at[rows, columns].set(layer.weight[member, 0])
        layers.append(Dense(weight, layer.bias.reshape(-1)))
    own, shared = make_inputs(2), make_inputs()
    for inputs in (own, shared):
        close(mimo.heads(MLP(tuple(layers)), *inputs), make_deep(shape).heads(networks, *inputs))


def test_mimo_fed_with_one_input_is_mimo_fed_with_copies() -> None:
    ensemble = make_mimo(make_shape(layer_norm=True))
    params, inputs = random_params(ensemble), make_inputs()
    copies = [jnp.broadcast_to(x, (3, *x.shape)) for x in inputs]
    close(ensemble.heads(params, *inputs), ensemble.heads(params, *copies))


@pytest.mark.parametrize(("repetition", "moved"), [(0.5, 20), (0.0, 40), (1.0, 0), (0.25, 30)])
def test_every_member_of_mimo_shuffles_its_share_of_the_batch(
    repetition: float, moved: int
) -> None:
    arrange = make_mimo(make_shape(mimo_repetition=repetition)).arrange
    assert arrange is not None
    rows = np.asarray(arrange(40, KEY))
    assert np.array_equal(np.sort(rows, axis=1), np.tile(np.arange(40), (3, 1)))
    assert np.array_equal(np.sort(rows[:, :moved], axis=1), np.tile(np.arange(moved), (3, 1)))
    if moved:
        assert len({row.tobytes() for row in rows}) == 3
        assert not np.array_equal(rows, arrange(40, jax.random.key(1)))


# ---- batch --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer_norm", [False, True])
def test_batch_without_modulation_is_one_shared_network(layer_norm: bool) -> None:
    ensemble = make_batch(make_shape(heads=2, layer_norm=layer_norm))

    def alike(x: Any) -> Any:
        return jnp.broadcast_to(x[:1, :1], x.shape)

    plain = [
        replace(
            layer,
            r=jnp.ones_like(layer.r),
            s=jnp.ones_like(layer.s),
            bias=alike(layer.bias),
            norm=jax.tree.map(alike, layer.norm),
        )
        for layer in random_params(ensemble)
    ]
    network = MLP(
        tuple(Dense(p.weight, p.bias[0, 0], jax.tree.map(lambda x: x[0, 0], p.norm)) for p in plain)
    )
    alone = network(jnp.concatenate(make_inputs(), axis=-1))[:, 0]
    for values in ensemble.heads(tuple(plain), *make_inputs()).reshape(6, BATCH):
        close(values, alone)


def test_a_member_of_batch_has_the_shared_weights_times_its_outer_product() -> None:
    ensemble = make_batch(make_shape(modulation="gaussian"))
    params = random_params(ensemble)
    found = ensemble.heads(params, *make_inputs())
    for i in range(3):
        layers = [
            Dense(layer.weight * jnp.outer(layer.r[i, 0], layer.s[i, 0]), layer.bias[i, 0])
            for layer in params
        ]
        close(found[i, 0], MLP(tuple(layers))(jnp.concatenate(make_inputs(), axis=-1))[:, 0])


def test_modulations_start_as_signs_or_around_one() -> None:
    wide = make_shape(hidden=(2000,))
    signs = np.asarray(make_batch(wide).init(KEY)[0].s)
    assert set(np.unique(signs)) == {-1.0, 1.0} and abs(signs.mean()) < 0.05
    gaussian = np.asarray(make_batch(wide._replace(modulation="gaussian")).init(KEY)[0].s)
    assert gaussian.mean() == pytest.approx(1.0, abs=0.05)
    assert gaussian.std() == pytest.approx(0.5, abs=0.05)


# ---- priors -------------------------------------------------------------------------------------------


def test_a_prior_is_added_and_only_the_policy_feels_its_slope() -> None:
    shape = make_shape(prior_scale=2.5)
    ensemble, deep = make_prior(shape), make_deep(shape)
    params, inputs = random_params(ensemble), make_inputs()
    expected = deep.heads(params.trained, *inputs) + 2.5 * deep.heads(params.prior, *inputs)
    close(ensemble.heads(params, *inputs), expected)

    slope = jax.grad(lambda p: ensemble.heads(p, *inputs).sum())(params)
    assert not any(leaf.any() for leaf in jax.tree.leaves(slope.prior))
    assert slope.trained.layers[0].weight.any()
    observations, actions = inputs
    by_action = jax.grad(lambda a: ensemble.heads(params, observations, a).sum())(actions)
    by_trained = jax.grad(lambda a: deep.heads(params.trained, observations, a).sum())(actions)
    assert float(jnp.abs(by_action - by_trained).max()) > 1e-3


def test_priors_start_apart_from_what_is_trained() -> None:
    params = make_prior(make_shape(members=2, hidden=(3,))).init(KEY)
    both = np.concatenate([params.trained.layers[0].weight, params.prior.layers[0].weight])
    assert len({weight.tobytes() for weight in both}) == 4


# ---- dropout ------------------------------------------------------------------------------------------


def test_masks_are_fixed_without_a_key_and_drawn_with_one() -> None:
    ensemble = make_dropout(make_shape(dropout=0.5))
    params, inputs = random_params(ensemble), make_inputs()
    fixed = ensemble.heads(params, *inputs)
    np.testing.assert_array_equal(
        fixed, make_dropout(make_shape(dropout=0.5)).heads(params, *inputs)
    )
    drawn = [ensemble.heads(params, *inputs, key=jax.random.key(k)) for k in (1, 1, 2)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2]) and not np.array_equal(drawn[0], fixed)


def test_a_mask_takes_its_share_of_units_from_every_row_and_scales_the_rest() -> None:
    ensemble = make_dropout(make_shape(dropout=0.25, hidden=(4000,)))
    # Every hidden unit is 1 and the output is their mean.
    first = Dense(jnp.zeros((INPUTS, 4000)), jnp.ones(4000))
    network = MLP((first, Dense(jnp.full((4000, 1), 1 / 4000), jnp.zeros(1))))
    values = np.asarray(ensemble.heads(network, *make_inputs(), key=KEY))[:, 0]
    assert values == pytest.approx(1.0, abs=0.05)
    assert np.array_equal(values, np.repeat(values[:, :1], BATCH, axis=1))
    assert len(np.unique(values[:, 0])) == 3


def test_dropping_next_to_nothing_is_the_plain_network() -> None:
    ensemble = make_dropout(make_shape(dropout=1e-7, layer_norm=True))
    params = random_params(ensemble)
    plain = params(jnp.concatenate(make_inputs(), axis=-1))[:, 0]
    for values in ensemble.heads(params, *make_inputs(), key=KEY)[:, 0]:
        close(values, plain)
