import jax
import jax.numpy as jnp
import numpy as np

from chary import algos
from chary.algos.msg_config import MSGConfig
from chary.online.explore import choose, is_deterministic

SMALL = {"members": 3, "hidden": (8,), "batch_size": 4}


def test_the_largest_of_mean_and_spread_is_chosen() -> None:
    msg = algos.build("msg", MSGConfig(**SMALL), 3, 2)
    state = msg.init(jax.random.key(1))
    seen = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    key = jax.random.key(7)
    for weight in (-4.0, 0.0, 3.0):
        choice = choose(msg, 6, state, seen, key, np.float32(weight), np.float32(0.0))
        each = jnp.repeat(seen, 6, axis=0)
        drawn = msg.act(state, each, key=jax.random.split(key)[0])
        assert msg.values is not None
        members = np.asarray(msg.values(state, each, drawn))
        score = (members.mean(0) + weight * members.std(0)).reshape(5, 6)
        best = score.argmax(1) + 6 * np.arange(5)
        np.testing.assert_allclose(choice.actions, np.asarray(drawn)[best], atol=1e-6)
        np.testing.assert_allclose(choice.std, members.std(0)[best], rtol=1e-4, atol=1e-6)


def test_a_policy_of_one_action_a_state_is_known_and_gets_noise() -> None:
    seen = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    for name, settings, answer in (("rebrac", {}, True), ("msg", {"members": 2}, False)):
        config = algos.entry(name).config(hidden=(8,), batch_size=4, **settings)
        made = algos.build(name, config, 3, 2)
        state = made.init(jax.random.key(1))
        assert is_deterministic(made, state, seen) is answer
        alone = choose(made, 1, state, seen, jax.random.key(0), np.float32(0), np.float32(0))
        noisy = choose(made, 1, state, seen, jax.random.key(0), np.float32(0), np.float32(0.5))
        assert np.abs(np.asarray(noisy.actions - alone.actions)).mean() > 0.1
        assert np.abs(np.asarray(noisy.actions)).max() <= 1.0
