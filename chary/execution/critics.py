"""How an algorithm asks and trains its critics: what it says to an executor, and what it gets back.

An algorithm says at which actions every critic is asked (`Asked`) and what each member learns from the
answers (a loss). How that is computed is the executor's business: `Plain` does it in the obvious way,
`Fused` fast. Both give the same numbers, but for rounding.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from jaxtyping import Array, Float

from chary.ensembles import Ensemble
from chary.types import OnlineAndTarget, PyTree

Values: TypeAlias = Float[Array, "member batch"]
Read: TypeAlias = Callable[[Any], Values]
"""From a critic's outputs (member, head, batch, ...) to its value."""


class Asked(NamedTuple):
    """Actions at which a step asks every critic, or what the critics answer there; None: not asked."""

    logged: Any
    """(batch, action), or (member, head, rows, ...) of answers."""
    regulariser: Any = None
    """Actions of each member's own."""
    policy: Any = None
    """One action a state for all members."""


MemberLoss: TypeAlias = Callable[[Asked, Any, Any], Float[Array, " member"]]
"""`loss(answers, targets, noise)` of each member."""


class Lesson(NamedTuple):
    """What critics learn in a step."""

    observations: Any
    asked: Callable[[Any], Asked]
    """`asked(noise)`: at which actions."""
    loss: MemberLoss
    targets: Any
    learning_rate: Any
    tau: Any
    weight: Any = None
    """Of the mean value at the policy's actions in the loss; None where it does not look there."""
    also: Callable[[PyTree, PyTree, Any], Any] | None = None
    """`also(online, target, noise)`: a loss of each member on its parameters, beside what it learns from
    answers."""


class Learned(NamedTuple):
    """What a step of the critics leaves behind."""

    critics: OnlineAndTarget
    optimiser: PyTree
    answers: Asked
    """Of all members, before the step."""
    targets: Any
    """Of all members."""
    at_policy: Callable[[Float[Array, "batch action"]], Values]
    """Q_i(s, a) of the critics before the step, with its gradient in a, at the policy's actions."""


class Same(NamedTuple):
    """The noise of critics in whose step nothing is random: all members see the same rows."""

    ensemble_key: None = None

    def of(self, members: Any) -> "Same":
        del members
        return self

    def arranged(self, rows: Any) -> Any:
        return rows

    def in_order(self, heads: Any, size: int) -> Any:
        del size
        return heads


SAME = Same()
MakeExecutor: TypeAlias = "Callable[[Ensemble, Read, int], Executor]"
"""`make(ensemble, read, members)`."""


class Executor(Protocol):
    """A way to ask and train critics. `noise.of(members)` is the part of some members of what is random
    in a step, `noise.arranged` and `noise.in_order` which rows each member sees, in which order."""

    def target_values(
        self, critics: PyTree, observations: Any, actions: Callable[[Any], Any], noise: Any
    ) -> Any:
        """Outputs of the target networks at `actions(noise)`."""
        ...

    def across_members(self, backup: Callable[..., Any]) -> Callable[..., Any]:
        """A rule whose target is the same for all members, applied to what `target_values` gives."""
        ...

    def step(
        self, critics: OnlineAndTarget, optimiser: PyTree, lesson: Lesson, noise: Any
    ) -> Learned:
        """One step of Adam on the sum of the members' losses, and of the target averages."""
        ...

    def everywhere(self, algorithm: Any, by_member: Callable[[Any], Any]) -> Any:
        """The algorithm on as many devices as there are; `by_member(state)` are the parts of its state
        whose first axis is members."""
        ...
