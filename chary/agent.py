"""A trained policy and its critics, in the environment's own units: what users hold in their hands."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chary.data.scaling import Scaling
from chary.envs import Task
from chary.errors import CharyError
from chary.evaluate import EvalResult, evaluate
from chary.targets import lower_confidence_bound, mean_and_std
from chary.types import Algorithm

BLOCK = 16
"""Rows that one call of the compiled policy takes."""


class Uncertainty(NamedTuple):
    """What the critics say of state-action pairs, in the learner's reward units."""

    members: np.ndarray
    """(member, batch): each critic's own value."""
    mean: np.ndarray
    std: np.ndarray
    lcb: np.ndarray
    """mean + beta * std: the bound that the policy climbs."""


class Agent:
    """Acts, and says how sure it is. Made by `chary.train` and `chary.open_run`."""

    def __init__(
        self,
        algorithm: Algorithm[Any],
        state: Any,
        scaling: Scaling,
        task: Task | None,
        *,
        seed: int,
        folder: Path,
    ):
        self.algorithm = algorithm
        self.state = state
        self.scaling = scaling
        self.task = task
        """The simulator that belongs to the dataset, if there is one."""
        self.seed = seed
        self.folder = folder
        """The run folder this was learned in."""

    def act(self, observations: np.ndarray, *, key: Any = None) -> np.ndarray:
        """Actions for one observation or a batch: the policy's mode, or a sample with a JAX key."""
        observations = np.asarray(observations, np.float32)
        wanted = self.scaling.observation_mean.shape
        if observations.shape[-1:] != wanted or observations.ndim > 2:
            raise CharyError(
                f"observations have shape {observations.shape}; this agent takes {wanted} "
                f"or (batch, {wanted[0]})."
            )
        rows = self.scaling.observations(np.atleast_2d(observations))
        if key is None:
            unit = self._act_by_row(rows)
        else:
            unit = self.algorithm.act(self.state, jnp.asarray(rows), key=key)
        actions = self.scaling.from_unit(np.asarray(unit))
        return actions if observations.ndim == 2 else actions[0]

    def _act_by_row(self, rows: np.ndarray) -> np.ndarray:
        """Each row by itself, always in blocks of one size: the same bits in any company."""
        padded = np.pad(rows, ((0, -len(rows) % BLOCK), (0, 0)))
        blocks = padded.reshape(-1, BLOCK, rows.shape[1])
        acted = [_act_in_block(self.algorithm.act, self.state, block) for block in blocks]
        return np.concatenate(acted)[: len(rows)]

    def uncertainty(self, observations: np.ndarray, actions: np.ndarray) -> Uncertainty:
        """Each critic's value of the pairs, their mean, spread, and lower confidence bound."""
        if self.algorithm.values is None or self.algorithm.beta is None:
            raise CharyError("this algorithm has no critics, so it knows no uncertainty.")
        rows = self.scaling.observations(np.atleast_2d(np.asarray(observations, np.float32)))
        unit = self.scaling.to_unit(np.atleast_2d(np.asarray(actions, np.float32)))
        believed = _believed(self.algorithm.values, self.algorithm.beta, self.state, rows, unit)
        return Uncertainty(*(np.asarray(x) for x in believed))

    def evaluate(
        self,
        episodes: int = 100,
        *,
        step: int = 0,
        paths: int = 0,
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> EvalResult:
        """Run the policy's mode in the task that belongs to the dataset."""
        if self.task is None:
            raise CharyError("this dataset has no simulator to evaluate in.")
        return evaluate(
            self.act,
            self.task,
            episodes=episodes,
            seed=self.seed,
            step=step,
            paths=paths,
            stop_asked=stop_asked,
        )


@partial(jax.jit, static_argnums=0)
def _act_in_block(act: Any, state: Any, block: Any) -> Any:
    """Row after row: a matrix product of many rows may round each by what stands beside it."""
    return jax.lax.map(lambda row: act(state, row[None])[0], block)


@partial(jax.jit, static_argnums=(0, 1))
def _believed(values: Any, beta: Any, state: Any, rows: Any, actions: Any) -> tuple[Any, ...]:
    """Members, mean, spread and bound, compiled whole rather than operation by operation."""
    members = values(state, rows, actions)
    mean, std = mean_and_std(members)
    return members, mean, std, lower_confidence_bound(members, beta(state))
