"""Critics asked and trained as one fast program: a few members at a time, on their device, all that is
asked of them in one batch, and in place.

Where members are separate networks, the backward pass of their losses also gives the gradient of every
Q_i in the policy's actions, which is all that the policy needs of them (`Linearised`).
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from chary.ensembles import Ensemble
from chary.execution.config import DEFAULT, Execution
from chary.execution.critics import Asked, Learned, Lesson, Read
from chary.execution.devices import Shards, divided, shards_of
from chary.execution.windows import Window, through_windows
from chary.networks.matmul import learning_from
from chary.networks.optimisers import BETA_1, BETA_2, EPSILON
from chary.types import OnlineAndTarget, PyTree


class Moving(NamedTuple):
    """All that changes when parameters learn: they, their slow average and Adam's moments."""

    online: PyTree
    target: PyTree
    mu: PyTree
    nu: PyTree

    def step(
        self,
        gradient: PyTree,
        count: Float[Array, ""],
        learning_rate: Float[Array, ""],
        tau: Float[Array, ""],
        window: Window,
    ) -> "Moving":
        """Adam's step number `count` and the target average, for the members in a window.

        Everything is read where it was written last: no array's old and new contents are needed at the
        same time, so the compiler updates them all in place. Optax's own step, on slices, copies them.
        """

        def put(tree: PyTree, change: Callable[..., Array], *others: PyTree) -> PyTree:
            return window.put(tree, jax.tree.map(change, window.of(tree), *others))

        mu = put(self.mu, lambda m, g: (1.0 - BETA_1) * g + BETA_1 * m, gradient)
        nu = put(self.nu, lambda v, g: (1.0 - BETA_2) * g**2 + BETA_2 * v, gradient)
        mean_share, square_share = 1.0 - BETA_1**count, 1.0 - BETA_2**count

        def moved(p: Array, m: Array, v: Array) -> Array:
            direction = (m / mean_share) / (jnp.sqrt(v / square_share) + EPSILON)
            return p - learning_rate * direction

        online = put(self.online, moved, window.of(mu), window.of(nu))
        target = put(self.target, lambda slow, new: slow + tau * (new - slow), window.of(online))
        return Moving(online, target, mu, nu)


class Linearised(NamedTuple):
    """Q_i(s, a) around the a ~ pi(s) of a step: all that the policy needs of separate critics."""

    values: Float[Array, "member batch"]
    gradients: Float[Array, "member batch action"]

    def __call__(self, actions: Float[Array, "batch action"]) -> Float[Array, "member batch"]:
        """The values, with their gradient in these actions."""
        return self.values + (self.gradients * (actions - jax.lax.stop_gradient(actions))).sum(-1)


class Fused(NamedTuple):
    """Critics that are asked and trained in windows, on as many devices as there are shards."""

    ensemble: Ensemble
    shards: Shards
    window: int
    """Members at a time."""
    read: Read

    @classmethod
    def of(
        cls, ensemble: Ensemble, read: Read, members: int, execution: Execution = DEFAULT
    ) -> "Fused":
        """On as many devices and as many members at a time as the settings say."""
        shards = shards_of(members, execution.devices, divisible=ensemble.in_windows)
        window = (execution.window or shards.members) if ensemble.in_windows else members
        return cls(ensemble, shards, window, read)

    def target_values(
        self, critics: PyTree, observations: Any, actions: Callable[[Any], Any], noise: Any
    ) -> Any:
        """Of the members on this device."""
        here = noise.of(self.shards.here())

        def outputs(window: Window) -> Any:
            mine = here.of(window)
            asked = (mine.arranged(x) for x in (observations, actions(mine)))
            heads = self.ensemble.heads(window.of(critics), *asked, key=here.ensemble_key)
            return mine.in_order(heads, len(observations))

        return self._through(
            lambda window, found: window.put(found, outputs(window)), self._empty(outputs)
        )

    def across_members(self, backup: Callable[..., Any]) -> Callable[..., Any]:
        return self.shards.across(backup)

    def everywhere(self, algorithm: Any, by_member: Callable[[Any], Any]) -> Any:
        return divided(algorithm, self.shards.devices, by_member)

    def step(
        self, critics: OnlineAndTarget, optimiser: PyTree, lesson: Lesson, noise: Any
    ) -> Learned:
        """As `Executor.step` says. The gradient in the policy's actions is that of the loss, divided by
        the `weight` that they have in it. Where they have none, the passes are asked for their values
        there all the same, but no weight learns from these rows."""
        observations, asked, loss, targets, learning_rate, tau, weight, also = lesson
        noise, key = noise.of(self.shards.here()), noise.ensemble_key
        size, policy_learns = len(observations), asked(noise).policy is not None
        with_policy = policy_learns and (weight is not None or self.ensemble.in_windows)
        only_gradient = with_policy and weight is None
        factor = (1.0 if weight is None else weight) / size
        count = (optimiser.count + 1).astype(jnp.float32)

        def answers(params: PyTree, policy: Any, mine: Any) -> Asked:
            """What the critics say, asked in one batch."""
            actions = asked(mine)
            own = [x for x in (actions.logged, actions.regulariser) if x is not None]
            seen = mine.arranged(observations)
            rows = [(seen, mine.arranged(x)) for x in own]
            learned = sum(actions.shape[-2] for _, actions in rows)
            if with_policy:
                rows.append((observations, policy))
            with learning_from(learned if only_gradient else None):
                heads = self.ensemble.heads(
                    params, *(below(x) for x in zip(*rows, strict=True)), key=mine.ensemble_key
                )
            ends = list(accumulate(actions.shape[-2] for _, actions in rows))
            parts = jnp.split(heads, ends[:-1], axis=2)
            found = iter([mine.in_order(part, size) for part in parts])
            there = actions if with_policy else actions._replace(policy=None)
            return Asked(*(None if x is None else next(found) for x in there))

        def total(
            params: PyTree, policy: Any, slow: PyTree, goals: Any, mine: Any
        ) -> tuple[Any, Asked]:
            q = answers(params, policy, mine)
            each = loss(q, goals, mine)
            if also is not None:
                each += also(params, slow, mine)
            if only_gradient:
                each += self.read(q.policy).mean(axis=-1)  # no weight learns from it
            return each.sum(), q

        gradient_of = jax.grad(total, (0, 1) if with_policy else 0, has_aux=True)

        def everywhere(window: Window) -> Any:
            """The policy's actions for every member: the gradient in them is each member's own."""
            actions = asked(noise).policy
            return jnp.broadcast_to(actions, (window.size, *actions.shape)) if with_policy else None

        def work(window: Window, carry: Any) -> Any:
            moving, seen, at_policy = carry
            mine = noise.of(window)
            params, slow, goals = window.of((moving.online, moving.target, targets))
            gradient, q = gradient_of(params, everywhere(window), slow, goals, mine)
            if with_policy:
                gradient, gradients = gradient
                own = Linearised(self.read(q.policy), gradients / factor)
                at_policy = window.put(at_policy, own)
            moving = moving.step(gradient, count, learning_rate, tau, window)
            return moving, window.put(seen, q), at_policy

        def first_answers(window: Window) -> Asked:
            return answers(window.of(critics.online), everywhere(window), noise.of(window))

        def asked_again(actions: Float[Array, "batch action"]) -> Float[Array, "member batch"]:
            return self.read(self.ensemble.heads(critics.online, observations, actions, key=key))

        at_policy = None
        if with_policy:
            shape = self.shards.members, *asked(noise).policy.shape
            at_policy = Linearised(jnp.zeros(shape[:2]), jnp.zeros(shape))
        begin = Moving(*critics, optimiser.mu, optimiser.nu), self._empty(first_answers), at_policy
        moving, seen, at_policy = self._through(work, begin)
        seen, at_policy, targets = self.shards.gathered((seen, at_policy, targets))
        return Learned(
            OnlineAndTarget(moving.online, moving.target),
            optimiser._replace(count=optimiser.count + 1, mu=moving.mu, nu=moving.nu),
            seen,
            targets,
            asked_again if at_policy is None else at_policy,
        )

    def _empty(self, outputs: Callable[[Window], Any]) -> Any:
        """Zeros for what `outputs` gives of one window, for all members here."""
        window = Window(0, self.window, whole=self.window == self.shards.members)
        like = jax.eval_shape(lambda: outputs(window))
        return jax.tree.map(lambda x: jnp.zeros((self.shards.members, *x.shape[1:]), x.dtype), like)

    def _through(self, work: Callable[[Window, Any], Any], carry: Any) -> Any:
        return through_windows(work, carry, members=self.shards.members, size=self.window)


def below(kinds: Sequence[Float[Array, "..."]]) -> Float[Array, "..."]:
    """Rows below each other; where some are each member's own, all are."""
    leading = jnp.broadcast_shapes(*(each.shape[:-2] for each in kinds))
    return jnp.concatenate(
        [jnp.broadcast_to(each, (*leading, *each.shape[-2:])) for each in kinds], axis=-2
    )
