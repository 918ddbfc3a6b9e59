"""A trained policy and its critics, in the environment's own units: what users hold in their hands."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chary.acting import MODE, Acting, resolve
from chary.data.scaling import Scaling
from chary.envs import Task
from chary.errors import CharyError
from chary.evaluate import Act, EvalResult, Moments, evaluate
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

    def act(
        self, observations: np.ndarray, *, key: Any = None, best_of: int | None = None
    ) -> np.ndarray:
        """Actions for one observation or a batch: the policy's mode, a sample with a JAX key, or with
        `best_of` the sample of so many whose lower confidence bound is largest."""
        rows = self._rows(observations)
        if key is None or best_of is not None:
            each = Moments(np.arange(len(rows), dtype=np.uint32), np.zeros(len(rows), np.uint32))
            way = MODE if best_of is None else resolve(f"best-of-{best_of}").main
            key = _evaluation_key(self.seed, 0) if key is None else key
            unit = self._act_by_row(way, rows, each, key)
        else:
            unit = self.algorithm.act(self.state, jnp.asarray(rows), key=key)
        actions = self.scaling.from_unit(np.asarray(unit))
        return actions if np.ndim(observations) == 2 else actions[0]

    def _rows(self, observations: np.ndarray) -> np.ndarray:
        """A row in the learner's units for each observation; refuses those of another task."""
        observations = np.asarray(observations, np.float32)
        shape = self.scaling.observation_mean.shape
        if observations.shape[-1:] != shape or observations.ndim > 2:
            raise CharyError(
                f"observations have shape {observations.shape}; this agent takes {shape} "
                f"or (batch, {shape[0]})."
            )
        return self.scaling.observations(np.atleast_2d(observations))

    def _acting(self, way: Acting, step: int) -> Act:
        """What an evaluation at a step acts by; each action is decided by its row and moment alone."""
        key = _evaluation_key(self.seed, step)

        def act(observations: np.ndarray, moments: Moments) -> np.ndarray:
            unit = self._act_by_row(way, self._rows(observations), moments, key)
            return self.scaling.from_unit(unit)

        return act

    def _act_by_row(self, way: Acting, rows: np.ndarray, moments: Moments, key: Any) -> np.ndarray:
        """Each row by itself, always in blocks of one size: the same bits in any company."""
        spare = -len(rows) % BLOCK
        blocks = np.pad(rows, ((0, spare), (0, 0))).reshape(-1, BLOCK, rows.shape[1])
        episodes, times = (np.pad(m, (0, spare)).reshape(-1, BLOCK) for m in moments)
        # The state is whole here, on however many devices it was trained.
        algorithm = replace(self.algorithm, spread=None)
        acted = [
            _act_in_block(way.choose, algorithm, self.state, key, *block)
            for block in zip(blocks, episodes, times, strict=True)
        ]
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
        act: str = "mode",
        step: int = 0,
        paths: int = 0,
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> EvalResult:
        """Run the policy in the task that belongs to the dataset.

        `act` is how: by its `mode`, by a `sample` at every step, by the sample with the largest bound of
        32 (`best-of-32`), or `both` mode and sample, which runs every start twice and has the samples'
        results in `EvalResult.sampled`.
        """
        if self.task is None:
            raise CharyError("this dataset has no simulator to evaluate in.")
        task, ways = self.task, resolve(act)

        def run(way: Acting, paths: int) -> EvalResult:
            result = evaluate(
                self._acting(way, step),
                task,
                episodes=episodes,
                seed=self.seed,
                step=step,
                paths=paths,
                stop_asked=stop_asked,
            )
            return replace(result, act=way.name)

        result = run(ways.main, paths)
        return replace(result, sampled=run(ways.sampled, 0)) if ways.sampled else result


@lru_cache(maxsize=16)
def _evaluation_key(seed: int, step: int) -> Any:
    """The key of an evaluation, from integers of any size; training has other keys."""
    first, second = np.random.SeedSequence([seed, step]).generate_state(2).tolist()
    return jax.random.fold_in(jax.random.key(first), second)


@partial(jax.jit, static_argnums=(0, 1))
def _act_in_block(
    choose: Any, algorithm: Any, state: Any, key: Any, block: Any, episodes: Any, times: Any
) -> Any:
    """Row after row: a matrix product of many rows may round each by what stands beside it."""

    def act(one: tuple[Any, Any, Any]) -> Any:
        row, episode, time = one
        own_key = jax.random.fold_in(jax.random.fold_in(key, episode), time)
        return choose(algorithm, state, row, own_key)

    return jax.lax.map(act, (block, episodes, times))


@partial(jax.jit, static_argnums=(0, 1))
def _believed(values: Any, beta: Any, state: Any, rows: Any, actions: Any) -> tuple[Any, ...]:
    """Members, mean, spread and bound, compiled whole rather than operation by operation."""
    members = values(state, rows, actions)
    mean, std = mean_and_std(members)
    return members, mean, std, lower_confidence_bound(members, beta(state))
