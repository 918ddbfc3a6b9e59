"""How N critics take a step as one fast program: a few members at a time, on their device, all that is
asked of them in one batch, and in place.

An algorithm says at which actions every critic is asked (`Asked`) and what it learns from the answers
(a loss for each member). The noise of a step knows the part of every window of members
(`noise.of(window)`), and which rows each member sees, in which order (`arranged`, `in_order`). Where
members are separate networks, the same backward pass also gives the gradient of every Q_i in the
policy's actions, which is all that the policy needs of them (`Slopes`).
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from chary.devices import Shards
from chary.ensembles import Ensemble
from chary.optimise import Moving
from chary.products import learning_from
from chary.types import OnlineAndTarget, PyTree
from chary.window import Window, through_windows


class Asked(NamedTuple):
    """Actions at which a step asks every critic, or what the critics answer there; None: not asked."""

    logged: Any
    """(batch, action), or (member, head, rows, ...) of answers."""
    regulariser: Any = None
    policy: Any = None
    """One action a state for all members; asked only where the gradient in it comes for free."""


MemberLoss = Callable[[Asked, Any, Any], Float[Array, " member"]]
"""`loss(answers, target, noise)` of each member."""


class Slopes(NamedTuple):
    """Q_i(s, a) around the a ~ pi(s) of a step: all that the policy needs of separate critics."""

    values: Float[Array, "member batch"]
    in_actions: Float[Array, "member batch action"]

    def __call__(self, actions: Float[Array, "batch action"]) -> Float[Array, "member batch"]:
        """The values, with their gradient in these actions."""
        return self.values + (self.in_actions * (actions - jax.lax.stop_gradient(actions))).sum(-1)


class Learned(NamedTuple):
    """What a step of the critics leaves behind."""

    critics: OnlineAndTarget
    optimiser: PyTree
    answers: Asked
    """Of all members, before the step."""
    slopes: Slopes | None


class Fused(NamedTuple):
    """Critics that are asked and trained in windows, on as many devices as there are shards."""

    ensemble: Ensemble
    shards: Shards
    window: int
    """Members at a time."""
    read: Callable[[Any], Float[Array, "member batch"]]
    """From a critic's outputs to its value."""

    def target_values(
        self, critics: PyTree, observations: Any, actions: Callable[[Any], Any], noise: Any
    ) -> Any:
        """Outputs of the target networks at `actions(noise)`, of the members here."""

        def outputs(window: Window) -> Any:
            mine = noise.of(window)
            asked = (mine.arranged(x) for x in (observations, actions(mine)))
            heads = self.ensemble.heads(window.of(critics), *asked, key=noise.ensemble_key)
            return mine.in_order(heads, len(observations))

        return self._through(
            lambda window, found: window.put(found, outputs(window)), self._empty(outputs)
        )

    def step(
        self,
        critics: OnlineAndTarget,
        optimiser: PyTree,
        observations: Any,
        asked: Callable[[Any], Asked],
        loss: MemberLoss,
        targets: Any,
        noise: Any,
        *,
        weight: Any = None,
        also: Callable[[PyTree, PyTree, Any], Any] | None = None,
        learning_rate: Any,
        tau: Any,
    ) -> Learned:
        """One step of Adam on the sum over members of `loss`, and of the target averages.

        `asked(noise)` is what is asked. `weight` is the weight of the mean value at the policy's actions
        in the loss, by which the gradient there is divided to give that of Q_i; None where the loss does
        not look there: then no weight learns from these rows. `also(online, target, noise)` is a loss of
        each member on its parameters, beside what it learns from answers.
        """
        size, with_policy = len(observations), asked(noise).policy is not None
        only_slope = with_policy and weight is None
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
            with learning_from(learned if only_slope else None):
                heads = self.ensemble.heads(
                    params, *(below(x) for x in zip(*rows, strict=True)), key=mine.ensemble_key
                )
            ends = list(accumulate(actions.shape[-2] for _, actions in rows))
            parts = jnp.split(heads, ends[:-1], axis=2)
            found = iter([mine.in_order(part, size) for part in parts])
            return Asked(*(None if x is None else next(found) for x in actions))

        def total(
            params: PyTree, policy: Any, slow: PyTree, goals: Any, mine: Any
        ) -> tuple[Any, Asked]:
            q = answers(params, policy, mine)
            each = loss(q, goals, mine)
            if also is not None:
                each += also(params, slow, mine)
            if only_slope:
                each += self.read(q.policy).mean(axis=-1)  # no weight learns from it
            return each.sum(), q

        gradient_of = jax.grad(total, (0, 1) if with_policy else 0, has_aux=True)

        def everywhere(window: Window) -> Any:
            """The policy's actions for every member: the gradient in them is each member's own."""
            actions = asked(noise).policy
            return jnp.broadcast_to(actions, (window.size, *actions.shape)) if with_policy else None

        def work(window: Window, carry: Any) -> Any:
            moving, seen, slopes = carry
            mine = noise.of(window)
            params, slow, goals = window.of((moving.online, moving.target, targets))
            gradient, q = gradient_of(params, everywhere(window), slow, goals, mine)
            if with_policy:
                gradient, in_actions = gradient
                slopes = window.put(slopes, Slopes(self.read(q.policy), in_actions / factor))
            moving = moving.step(gradient, count, learning_rate, tau, window)
            return moving, window.put(seen, q), slopes

        def first_answers(window: Window) -> Asked:
            return answers(window.of(critics.online), everywhere(window), noise.of(window))

        slopes = None
        if with_policy:
            shape = self.shards.members, *asked(noise).policy.shape
            slopes = Slopes(jnp.zeros(shape[:2]), jnp.zeros(shape))
        begin = Moving(*critics, optimiser.mu, optimiser.nu), self._empty(first_answers), slopes
        moving, seen, slopes = self._through(work, begin)
        seen, slopes = self.shards.gathered((seen, slopes))
        optimiser = optimiser._replace(count=optimiser.count + 1, mu=moving.mu, nu=moving.nu)
        return Learned(OnlineAndTarget(moving.online, moving.target), optimiser, seen, slopes)

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
