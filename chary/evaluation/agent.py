"""A trained policy and its critics, in the environment's own units: what users hold in their hands."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chary.data.dataset import Dataset
from chary.data.scaling import Scaling
from chary.envs import Task
from chary.errors import CharyError
from chary.evaluation.acting import MODE, Acting, resolve
from chary.evaluation.inputs import UNNAMED, Invalid, Names, actions_of, rows_of
from chary.evaluation.limits import FLAG_RATE, Limits, limits_of, reasons_of
from chary.evaluation.own_env import own_task
from chary.evaluation.rollouts import Act, EvalResult, Moments, evaluate
from chary.evaluation.video import film
from chary.host.importing import require_trusted
from chary.networks.targets import lower_confidence_bound, mean_and_std
from chary.types import Algorithm

BLOCK = 16
"""Rows that one call of the compiled policy takes."""


class Uncertainty(NamedTuple):
    """The critics' values of state-action pairs, in the learner's reward units."""

    members: np.ndarray
    """(member, batch): each critic's value."""
    mean: np.ndarray
    std: np.ndarray
    """Their standard deviation, the measure of uncertainty. Infinite if the input or a critic's value is
    NaN or infinite."""
    lcb: np.ndarray
    """mean + beta * std, the bound that the policy maximises. Minus infinity where std is infinite."""


class Decision(NamedTuple):
    """What to do in each state, how sure the critics are, and whether the data knows the state."""

    action: np.ndarray
    """(batch, action): the policy's mode; NaN for an invalid observation."""
    mean: np.ndarray
    """The critics' values of the action, as in `Uncertainty`; NaN without critics."""
    std: np.ndarray
    lcb: np.ndarray
    outside_data: np.ndarray
    """(batch,), bool: do not trust the action."""
    reason: np.ndarray
    """(batch,): why, in words; empty inside the data."""
    distance: np.ndarray
    """From the nearest logged states, in deviations of the data."""


class Agent:
    """A trained policy with its critics. Made by `chary.train` and `chary.open_run`."""

    def __init__(
        self,
        algorithm: Algorithm[Any],
        state: Any,
        scaling: Scaling,
        task: Task | None,
        *,
        seed: int,
        folder: Path,
        env: str | None = None,
        names: Names = UNNAMED,
        limits: Limits | None = None,
    ):
        self.algorithm = algorithm
        self.state = state
        self.scaling = scaling
        self.task = task
        """The dataset's simulator, if there is one."""
        self.seed = seed
        self.folder = folder
        """The run folder."""
        self.env = env
        """The simulator named by the run; it is made when needed."""
        self.names = names
        """Names of the data's columns, if known."""
        self.limits = limits
        """Where the data ends, if that was recorded."""

    def act(
        self,
        observations: np.ndarray,
        *,
        key: Any = None,
        best_of: int | None = None,
        invalid: Invalid = "refuse",
    ) -> np.ndarray:
        """Actions for one observation or a batch.

        By default the policy's mode; with a JAX key a sample; with `best_of` the one of that many
        samples with the largest lower confidence bound. Observations with NaN or infinite values are an
        error; with `invalid="outside"` their actions are NaN instead.
        """
        rows, sound = self._rows(observations, invalid)
        if key is None or best_of is not None:
            each = Moments(np.arange(len(rows), dtype=np.uint32), np.zeros(len(rows), np.uint32))
            way = MODE if best_of is None else resolve(f"best-of-{best_of}").main
            key = _evaluation_key(self.seed, 0) if key is None else key
            unit = self._act_by_row(way, rows, each, key)
        else:
            unit = self.algorithm.act(self.state, jnp.asarray(rows), key=key)
        actions = self.scaling.from_unit(np.asarray(unit))
        actions = np.where(sound[:, None], actions, np.float32(np.nan))
        return actions if np.ndim(observations) == 2 else actions[0]

    def _rows(self, observations: np.ndarray, invalid: Invalid) -> tuple[np.ndarray, np.ndarray]:
        """A row in the learner's units for each observation, and whether it is sound."""
        size = len(self.scaling.observation_mean)
        rows = rows_of("observations", observations, size, self.names.observations, invalid=invalid)
        return self.scaling.observations(rows.values), rows.sound

    def _acting(self, way: Acting, step: int) -> Act:
        """What an evaluation at a step acts by; each action is decided by its row and moment alone."""
        key = _evaluation_key(self.seed, step)

        def act(observations: np.ndarray, moments: Moments) -> np.ndarray:
            # A simulator that breaks down must not end a training: its action is no number either.
            rows, sound = self._rows(observations, "outside")
            unit = self._act_by_row(way, rows, moments, key)
            return np.where(sound[:, None], self.scaling.from_unit(unit), np.float32(np.nan))

        return act

    def _act_by_row(self, way: Acting, rows: np.ndarray, moments: Moments, key: Any) -> np.ndarray:
        """Each row by itself, in blocks of one size: the same bits whatever the other rows are."""
        spare = -len(rows) % BLOCK if len(rows) else BLOCK  # no rows are a block of none
        blocks = np.pad(rows, ((0, spare), (0, 0))).reshape(-1, BLOCK, rows.shape[1])
        episodes, times = (np.pad(m, (0, spare)).reshape(-1, BLOCK) for m in moments)
        # The state is whole here, on however many devices it was trained.
        algorithm = replace(self.algorithm, spread=None)
        acted = [
            _act_in_block(way.choose, algorithm, self.state, key, *block)
            for block in zip(blocks, episodes, times, strict=True)
        ]
        return np.concatenate(acted)[: len(rows)]

    def uncertainty(
        self, observations: np.ndarray, actions: np.ndarray, *, invalid: Invalid = "refuse"
    ) -> Uncertainty:
        """Each critic's value of the pairs, their mean, standard deviation and lower confidence bound.

        NaN or infinite inputs, and actions outside their bounds, are an error. With `invalid="outside"`
        they get NaN values, an infinite standard deviation and a bound of minus infinity.
        """
        if self.algorithm.values is None or self.algorithm.beta is None:
            raise CharyError("this algorithm has no critics, so it has no uncertainty.")
        bounds = self.scaling.action_low, self.scaling.action_high
        rows, sound = self._rows(observations, invalid)
        asked = actions_of(actions, *bounds, self.names.actions, invalid=invalid)
        if len(rows) != len(asked.values):
            raise CharyError(
                f"{len(rows)} observation(s) but {len(asked.values)} action(s): each needs the other."
            )
        unit = self.scaling.to_unit(asked.values)
        believed = _believed(self.algorithm.values, self.algorithm.beta, self.state, rows, unit)
        members, mean, std, lcb = (np.asarray(x) for x in believed)
        known = sound & asked.sound & np.isfinite(members).all(axis=0) & np.isfinite(std)
        return Uncertainty(
            np.where(sound & asked.sound, members, np.float32(np.nan)),
            np.where(known, mean, np.float32(np.nan)),
            np.where(known, std, np.float32(np.inf)),
            np.where(known, lcb, np.float32(-np.inf)),
        )

    def decide(
        self,
        observations: np.ndarray,
        actions: np.ndarray | None = None,
        *,
        flag_rate: float = FLAG_RATE,
        invalid: Invalid = "refuse",
    ) -> Decision:
        """The policy's action in each state, its value, and whether the state is outside the data.

        On data like the logged, `flag_rate` of the states are flagged. With `actions`, those are judged
        instead of the policy's, somebody else's for example. Invalid inputs are an error; with
        `invalid="outside"` they are flagged.
        """
        limits = self.known_limits()
        threshold = limits.thresholds(flag_rate)
        size = len(limits.centre)
        rows = rows_of("observations", observations, size, self.names.observations, invalid=invalid)
        acted = self.act(rows.values)
        asked = acted if actions is None else np.atleast_2d(actions)
        sound, doubted = rows.sound, np.zeros(len(acted), bool)
        mean = std = lcb = np.full(len(acted), np.nan, np.float32)
        if self.algorithm.values is not None and self.algorithm.beta is not None:
            _, mean, std, lcb = self.uncertainty(observations, asked, invalid=invalid)
            sound, doubted = np.isfinite(std), std > threshold.spread
        distance = np.where(rows.sound, limits.distance(rows.values), np.float32(np.inf))
        reason = reasons_of(sound, doubted, distance > threshold.distance)
        action = np.where(rows.sound[:, None], acted, np.float32(np.nan))
        return Decision(action, mean, std, lcb, reason != "", reason, distance)

    def set_limits(self, dataset: Dataset, held_out: Dataset | None = None) -> None:
        """Record where the data ends for an agent that does not know, of an earlier checkpoint, say.

        `dataset` is what it has learned from, `held_out` episodes that it has not.
        """
        self.limits = limits_of(self, dataset, held_out, step=-1)

    def known_limits(self) -> Limits:
        """Where the data ends; an error where that was not recorded."""
        if self.limits is None:
            raise CharyError(
                f"{self.folder}: does not say where its data ends. That is recorded at the end of "
                f"training, for the last step: `chary resume {self.folder}` adds it to an old run. For "
                "another checkpoint call agent.set_limits(dataset)."
            )
        return self.limits

    def evaluate(
        self,
        env: Any = None,
        episodes: int = 100,
        *,
        act: str = "mode",
        step: int = 0,
        paths: int = 0,
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> EvalResult:
        """Evaluate the policy in a simulator.

        `env` is a Gymnasium environment or its id, `"module:make"`, or a function that makes one; by
        default the dataset's task. `evaluate(20)` runs 20 episodes of that task.

        `act` is `mode`, `sample`, `best-of-32` (of 32 samples the one with the largest bound), or
        `both`: mode and samples from the same starts, the latter in `EvalResult.sampled`.
        """
        if isinstance(env, int):
            env, episodes = None, env
        ways, task = resolve(act), self._task(env)

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

    def film(
        self, path: str | Path, env: Any = None, *, act: str = "mode", episode: int = 0
    ) -> dict[str, Any]:
        """Draw an episode into a file: a film (.gif, .webp), or a strip of pictures (.png).

        It is the episode of that number in `evaluate`. Returns its return, length and success.
        """
        way = resolve(act).main
        return film(
            self._acting(way, 0), self._task(env), Path(path), seed=self.seed, episode=episode
        )

    def _task(self, env: Any) -> Task:
        """The simulator that is meant: the one given, the run's own, or the dataset's."""
        if env is None and self.env is not None and ":" in self.env:
            require_trusted([self.env], self.folder)
        env = env or self.env
        task = self.task if env is None else own_task(env, self.scaling)
        if task is None:
            raise CharyError(
                "this dataset has no simulator to evaluate in. Name one: agent.evaluate(env), or "
                "--env with a Gymnasium id or module:make."
            )
        return task


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
