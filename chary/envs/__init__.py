"""Tasks by name: how to make the environment, and what its returns are measured against."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import gymnasium

    from chary.envs.mazes import Maze


class Task(NamedTuple):
    """An environment to be evaluated in."""

    name: str
    make: Callable[..., "gymnasium.Env[Any, Any]"]
    """Makes the environment; takes Gymnasium's `render_mode` where it can draw."""
    reference_scores: tuple[float, float] | None = None
    """Returns that count as 0 and as 100 in the normalised score."""
    has_success: bool = False
    """Whether an episode can succeed (its info then says so), beyond collecting reward."""
    maze: "Maze | None" = None
    """The map, for tasks that have one."""
    at_once: int | None = None
    """Environments that there can be at a time; any number unless given."""

    def normalise(self, mean_return: float) -> float | None:
        """100 * (return - low) / (high - low), as D4RL defines its score."""
        if self.reference_scores is None:
            return None
        low, high = self.reference_scores
        return 100.0 * (mean_return - low) / (high - low)


# Modules of this package that know tasks, each through its own `find(name)`; imported when asked.
KINDS = ("mazes", "antmaze", "locomotion", "control", "ogbench")


def find_task(name: str) -> Task | None:
    """The task of that name, if there is a simulator for it here; `data.tasks` also knows of those that
    datasets bring along."""
    for kind in KINDS:
        task = import_module(f"chary.envs.{kind}").find(name)
        if task is not None:
            return task
    return None


def tells_success(environment: "gymnasium.Env[Any, Any]") -> bool:
    """Whether the environment says when an episode succeeds; one step is tried."""
    environment.reset(seed=0)
    environment.action_space.seed(0)
    return "success" in environment.step(environment.action_space.sample())[4]
