"""Critics asked and trained in the obvious way: all members at once, a pass for each kind of action,
Optax's Adam. What one writes from the paper in an afternoon: the tests' oracle and the benchmark's
plain way."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from chary.ensembles import Ensemble
from chary.execution.config import DEFAULT, Execution
from chary.execution.critics import Asked, Learned, Lesson, Read
from chary.networks.optimisers import adam_step, move_towards
from chary.types import OnlineAndTarget, PyTree


class Plain(NamedTuple):
    """All members at once."""

    ensemble: Ensemble
    read: Read

    @classmethod
    def of(
        cls, ensemble: Ensemble, read: Read, members: int, execution: Execution = DEFAULT
    ) -> "Plain":
        del members, execution  # nothing here can be set
        return cls(ensemble, read)

    def target_values(
        self, critics: PyTree, observations: Any, actions: Callable[[Any], Any], noise: Any
    ) -> Any:
        return self._ask(critics, observations, actions(noise), noise)

    def across_members(self, backup: Callable[..., Any]) -> Callable[..., Any]:
        return backup

    def step(
        self, critics: OnlineAndTarget, optimiser: PyTree, lesson: Lesson, noise: Any
    ) -> Learned:
        observations, asked, loss, targets, learning_rate, tau, weight, also = lesson
        actions = asked(noise)

        def total(params: PyTree) -> tuple[Any, Asked]:
            answers = Asked(
                logged=self._ask(params, observations, actions.logged, noise),
                regulariser=self._ask(params, observations, actions.regulariser, noise),
                policy=None
                if weight is None
                else self._at(params, observations, actions.policy, noise),
            )
            each = loss(answers, targets, noise)
            if also is not None:
                each += also(params, critics.target, noise)
            return each.sum(), answers

        gradient, answers = jax.grad(total, has_aux=True)(critics.online)
        online, optimiser = adam_step(critics.online, gradient, optimiser, learning_rate)
        target = move_towards(critics.target, online, tau)
        return Learned(
            OnlineAndTarget(online, target),
            optimiser,
            answers,
            targets,
            lambda actions: self.read(self._at(critics.online, observations, actions, noise)),
        )

    def everywhere(self, algorithm: Any, by_member: Callable[[Any], Any]) -> Any:
        del by_member  # one device
        return algorithm

    def _ask(self, params: PyTree, observations: Any, actions: Any, noise: Any) -> Any:
        """Outputs at actions that members may see in an order of their own."""
        if actions is None:
            return None
        rows = (noise.arranged(x) for x in (observations, actions))
        heads = self.ensemble.heads(params, *rows, key=noise.ensemble_key)
        return noise.in_order(heads, len(observations))

    def _at(self, params: PyTree, observations: Any, actions: Any, noise: Any) -> Any:
        return self.ensemble.heads(params, observations, actions, key=noise.ensemble_key)
