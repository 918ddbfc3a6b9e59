"""The user's own simulators: a Gymnasium id, `module:make`, a function that makes one, or one itself."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chary.envs import Task, tells_success
from chary.errors import CharyError
from chary.host.importing import find_named, in_short

if TYPE_CHECKING:
    import gymnasium

    from chary.data.scaling import Scaling

SLACK = 1e-4
"""Share of an action's range by which bounds may differ: files round them."""


def own_task(env: Any, scaling: "Scaling") -> Task:
    """The task to evaluate in; refused where it does not take what the agent was trained on."""
    return task_of(env, lambda name, environment: _check(name, environment, scaling))


def task_of(
    env: Any, check: "Callable[[str, gymnasium.Env[Any, Any]], None]" = lambda *_: None
) -> Task:
    """The task that a user names or brings along, if it passes a check.

    One environment that the user made is stepped alone and not closed.
    """
    import gymnasium

    if isinstance(env, gymnasium.Env):
        name = type(env.unwrapped).__name__
        made: Any = partial(_lent, env)
    elif isinstance(env, str):
        name = env
        made = find_named("--env", env, "mine:make") if ":" in env else _by_id(env)
    elif callable(env):
        name, made = getattr(env, "__name__", type(env).__name__), env
    else:
        raise CharyError(
            f"env is of type {type(env).__name__}, but must be a Gymnasium environment, its id, "
            "module:make, or a function that makes one."
        )
    if not callable(made):
        raise CharyError(f"--env {name}: is of type {type(made).__name__}, and cannot be called.")
    make = partial(_make, name, made)
    environment = make()
    check(name, environment)
    success = _tells_success(name, environment)
    environment.close()
    single = isinstance(env, gymnasium.Env)
    return Task(name, make, has_success=success, at_once=1 if single else None)


def _by_id(name: str) -> Callable[..., Any]:
    import gymnasium

    import chary.envs.registration  # noqa: F401  chary's own tasks have ids too

    return partial(gymnasium.make, name, disable_env_checker=True)


def _make(name: str, make: Callable[..., Any], **options: Any) -> "gymnasium.Env[Any, Any]":
    import gymnasium

    from chary.envs.flatten import FlatObservation

    try:
        environment = make(**options)
    except Exception as error:  # an unknown id, a missing package, whatever a user's code raises
        raise CharyError(f"--env {name}: cannot be made ({in_short(error)}).") from error
    if not isinstance(environment, gymnasium.Env):
        raise CharyError(
            f"--env {name}: gives something of type {type(environment).__name__}, not a Gymnasium "
            "environment."
        )
    return FlatObservation(environment)


def _check(name: str, environment: "gymnasium.Env[Any, Any]", scaling: "Scaling") -> None:
    from gymnasium import spaces

    box = environment.action_space
    if not isinstance(box, spaces.Box):
        raise CharyError(f"--env {name}: its actions are {box}; only boxes are supported.")
    found = environment.observation_space.shape, box.shape
    sizes = scaling.observation_mean.shape, scaling.action_low.shape
    if found != sizes:
        raise CharyError(
            f"--env {name}: its observations and actions have shapes {found}, but this agent was "
            f"trained with {sizes}."
        )
    slack = SLACK * (scaling.action_high - scaling.action_low)
    beyond = (scaling.action_low < box.low - slack) | (scaling.action_high > box.high + slack)
    if beyond.any():
        column = int(np.flatnonzero(beyond)[0])
        raise CharyError(
            f"--env {name}: takes actions of column {column} in [{box.low[column]:g}, "
            f"{box.high[column]:g}], but the data has [{scaling.action_low[column]:g}, "
            f"{scaling.action_high[column]:g}]. Are they in the same units?"
        )


def _tells_success(name: str, environment: "gymnasium.Env[Any, Any]") -> bool:
    """Whether an episode says that it succeeded; one step is tried."""
    try:
        return tells_success(environment)
    except Exception as error:
        raise CharyError(f"--env {name}: fails in its first step ({in_short(error)}).") from error


def _lent(env: "gymnasium.Env[Any, Any]", **options: Any) -> "gymnasium.Env[Any, Any]":
    """The user's environment, which stays open when an evaluation is over."""
    import gymnasium

    del options

    class Lent(gymnasium.Wrapper[Any, Any, Any, Any]):
        def close(self) -> None:
            pass

    return Lent(env)
