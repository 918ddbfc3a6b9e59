"""The few types that carry everything: a batch of transitions, an algorithm, a pair of networks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from jaxtyping import Array, Float, PRNGKeyArray

Metrics: TypeAlias = dict[str, Float[Array, ""]]
PyTree: TypeAlias = Any  # arrays in any nesting of tuples, lists, dicts and modules

State = TypeVar("State")


class Batch(NamedTuple):
    """Transitions, ready for learning: actions in [-1, 1], rewards transformed."""

    observations: Float[Array, "batch observation"]
    actions: Float[Array, "batch action"]
    rewards: Float[Array, " batch"]
    discounts: Float[Array, " batch"]
    """0 where the episode truly ended, 1 elsewhere (time limits included)."""
    next_observations: Float[Array, "batch observation"]
    next_actions: Float[Array, "batch action"] | None = None
    """What was logged next, NaN where nothing was; only for algorithms that ask for it."""
    returns: Float[Array, " batch"] | None = None
    """What the episode still brought, discounted; only for algorithms that ask for it."""


class OnlineAndTarget(NamedTuple):
    """Parameters that are trained, and their slow average."""

    online: PyTree
    target: PyTree


@dataclass(frozen=True)
class Algorithm(Generic[State]):
    """An algorithm is a value: pure functions over its own state, no base class."""

    init: Callable[[PRNGKeyArray], State]
    """`init(key)`: the state before the first step."""
    update: Callable[[State, Batch, PRNGKeyArray], tuple[State, Metrics]]
    """`update(state, batch, key)`: one step of learning."""
    act: Callable[..., Float[Array, "batch action"]]
    """`act(state, observations, key=None)`: the policy's mode in [-1, 1], or with a key a sample. For a
    policy of one action a state both are that action."""
    values: Callable[..., Float[Array, "member batch"]] | None = None
    """`values(state, observations, actions)`: what each critic says; None without critics."""
    beta: Callable[[State], Float[Array, ""]] | None = None
    """`beta(state)`: the weight of the standard deviation in the lower confidence bound."""
    validate: Callable[[State, Batch], Float[Array, ""]] | None = None
    """`validate(state, batch)`: a held-out score, higher is better; None where none makes sense."""
    noise: Callable[..., Float[Array, "batch action"]] | None = None
    """`noise(observations)`: for a policy that turns noise into actions, what it takes without a key;
    `act` then takes `noise=` too. None for other policies."""
    pessimism: tuple[str, ...] = ()
    """Settings in `state.hyper` that hold the policy back, to be loosened once it acts in its task."""
    wants_next_actions: bool = False
    """Whether `update` looks at the batch's `next_actions`; others need not pay for them."""
    wants_returns: bool = False
    """The same for the batch's `returns`."""
    spread: Any = None
    """Where the state is when it is on several devices (`execution.devices.Spread`); None for one."""
