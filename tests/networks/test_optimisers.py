"""Adam in place, against Optax's."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from chary.execution.fused import Moving
from chary.execution.windows import through_windows
from chary.networks.optimisers import adam_init, adam_step


def test_adam_in_windows_is_optaxs_adam_and_the_target_average() -> None:
    rng = np.random.default_rng(0)

    def random() -> dict[str, jax.Array]:
        return {
            "weight": jnp.asarray(rng.standard_normal((4, 3, 2)), jnp.float32),
            "bias": jnp.asarray(rng.standard_normal((4, 2)), jnp.float32),
        }

    rate, tau = jnp.float32(1e-2), jnp.float32(0.1)
    online = random()
    target, optimiser = online, adam_init(online)
    zeros = jax.tree.map(jnp.zeros_like, online)
    mine = {size: Moving(online, online, zeros, zeros) for size in (4, 2)}
    theirs, their_state = online, (adam := optax.adam(1e-2)).init(online)
    for step in range(1, 4):
        gradient = random()
        online, optimiser = adam_step(online, gradient, optimiser, rate)
        target = jax.tree.map(lambda slow, new: slow + tau * (new - slow), target, online)
        updates, their_state = adam.update(gradient, their_state)
        theirs = optax.apply_updates(theirs, updates)
        for size in mine:
            mine[size] = through_windows(
                lambda window, moving: moving.step(
                    window.of(gradient), jnp.float32(step), rate, tau, window
                ),
                mine[size],
                members=4,
                size=size,
            )
    wanted = Moving(online, target, optimiser.mu, optimiser.nu)
    for found in mine.values():
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    for a, b in zip(jax.tree.leaves(online), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
