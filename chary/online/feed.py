"""Batches of a run that acts in its task while it learns.

One advance of the loop is a round: every environment takes one step, and then come the updates that go
with these steps. A round depends on the state before it, the rows so far and the number of its first
step, on nothing else: so a run that resumes with these repeats what it did, to the bit.
"""

import warnings
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from chary.data.dataset import Dataset
from chary.data.scaling import Scaling
from chary.envs import Task
from chary.errors import CharyError
from chary.execution.batches import Feed
from chary.execution.program import Carry, compile_fed_chunk, keys
from chary.online import schedule
from chary.online.actors import Actors, unfinished
from chary.online.config import OnlineConfig
from chary.online.explore import choose, is_deterministic
from chary.online.rows import Buffer, Row
from chary.runs.folder import RunFolder
from chary.types import Algorithm, Batch

FLOOR = 0.01
"""Share of the pessimism that learning keeps: with none alpha would be 0, which is another program."""
ACTING = 0xAC7
"""Folded into the initial key: the key of actions."""


class Learner(NamedTuple):
    """What a run learns with, beside the settings of acting."""

    algorithm: Algorithm[Any]
    dataset: Dataset
    scaling: Scaling
    batch_size: int
    seed: int
    n_step: int
    discount: float


def make_feed(learner: Learner, task: Task, config: OnlineConfig, folder: RunFolder) -> Feed:
    """The source of batches that acts; rows and episodes are kept in the run's folder."""
    rounds = Rounds(learner, task, config, folder)
    return Feed(
        size=learner.dataset.size,
        advance=rounds.advance,
        reach=lambda step: step + config.environments,
        rows=rounds.logged,
        stride=config.environments,
        keep=rounds.keep,
        metrics=rounds.metrics,
        close=rounds.close,
    )


class Rounds:
    """The environments, the buffer and how far they are."""

    def __init__(self, learner: Learner, task: Task, config: OnlineConfig, folder: RunFolder):
        self._learner, self._task, self._config, self._folder = learner, task, config, folder
        algorithm = learner.algorithm
        self._chunk = compile_fed_chunk(algorithm, learner.batch_size)
        self.logged = partial(
            learner.dataset.transitions,
            learner.scaling,
            next_actions=algorithm.wants_next_actions,
            returns=algorithm.wants_returns,
            n_step=learner.n_step,
            discount=learner.discount,
        )
        initial, self._key = keys(learner.seed)
        self._acting_key = jax.random.fold_in(initial, ACTING)
        beta = algorithm.beta
        assert beta is not None  # whoever starts such a run makes sure that there are critics
        self._own, own_beta = jax.jit(
            lambda key: (_pessimism_of(algorithm, algorithm.init(key)), beta(algorithm.init(key)))
        )(initial)
        self._beta = float(own_beta)
        self._actors: Actors | None = None
        self._noise = 0.0
        self._kept = 0
        self._cuts: list[int] = []
        self._times: list[int] = []
        self._returns: list[float] = []

    def advance(self, carry: Carry, start: int, stop: int) -> Carry:
        """One round: a step of every environment, then their updates."""
        if self._actors is None:
            self._noise = self._needed_noise(carry.state)
            self._begin(start)
        self._act(carry.state, start, stop)
        if start < self._config.warmup:
            return carry
        each = self._config.updates_per_step
        first, last = start * each, stop * each
        share = max(FLOOR, self._share(start))
        loosened = _with_pessimism(carry.state, self._own, share, self._config.policy_beta)
        batches = self._batches(start, last - first)
        return self._chunk(carry._replace(state=loosened), batches, first, first, last, self._key)

    def _share(self, step: int) -> float:
        """How much of the run's pessimism there is."""
        return 1.0 if self._guard.up else schedule.falling(self._config, step)

    def _needed_noise(self, state: Any) -> float:
        rows = self.logged(np.arange(min(4, self._learner.dataset.size))).observations
        deterministic = is_deterministic(self._learner.algorithm, state, np.asarray(rows))
        return self._config.noise if deterministic else 0.0

    def _act(self, state: Any, start: int, stop: int) -> None:
        assert self._actors is not None
        config, scaling = self._config, self._learner.scaling
        warming_up = start < config.warmup
        weight = schedule.weight(config, self._share(start), self._beta)
        choice = choose(
            self._learner.algorithm,
            1 if warming_up or config.explore == "policy" else config.candidates,
            state,
            scaling.observations(self._actors.observations),
            jax.random.fold_in(self._acting_key, start),
            np.float32(weight),
            np.float32(self._noise),
        )
        actions, values, spreads = (np.asarray(part) for part in choice)
        if warming_up and config.from_nothing:
            random = np.random.default_rng([ACTING, self._learner.seed, start])
            actions = random.uniform(-1.0, 1.0, actions.shape).astype(np.float32)
        actions = np.asarray(scaling.from_unit(actions), np.float32)
        for environment in range(stop - start):
            outcome = self._actors.step(environment, actions[environment], self._times[environment])
            row = Row(
                self._actors.observations[environment].copy(),
                actions[environment],
                outcome.reward,
                outcome.observation,
                outcome.terminated,
                outcome.truncated,
                float(values[environment]),
                float(spreads[environment]),
            )
            self._buffer.add(row)
            self._times[environment] += 1
            self._returns[environment] += outcome.reward
            self._actors.observations[environment] = outcome.observation
            if outcome.terminated or outcome.truncated:
                self._finish(environment, start + environment + 1, outcome.success)

    def _finish(self, environment: int, step: int, success: bool) -> None:
        """An episode is over: note it, and begin the next."""
        assert self._actors is not None
        episode_return, length = self._returns[environment], self._times[environment]
        self._guard.add(episode_return)
        self._folder.append(
            "episodes",
            {
                "step": step,
                "environment": environment,
                "episode": self._actors.episodes[environment],
                "return": episode_return,
                "length": length,
                "success": success if self._task.has_success else None,
                "guard": self._guard.up,
            },
        )
        self._returns[environment], self._times[environment] = 0.0, 0
        following = self._actors.episodes[environment] + 1
        self._actors.observations[environment] = self._actors.reset(environment, following)

    def _batches(self, start: int, count: int) -> Batch:
        """So many batches for the updates after a round, along a leading axis."""
        random = np.random.default_rng([self._learner.seed, start])
        size, new = self._learner.batch_size, self._buffer.ready.size
        old = self._learner.dataset.size
        if self._config.retain is None:  # row by row
            logged = int(random.binomial(count * size, old / (old + new)))
        else:
            logged = count * round(self._config.retain * size) if new else count * size
        offline = self.logged(random.integers(0, old, logged))
        online = random.integers(0, max(new, 1), count * size - logged)

        def mixed(name: str) -> Any:
            before = getattr(offline, name)
            if before is None:
                return None
            before = np.asarray(before)
            if not len(online):
                return before.reshape(count, size, *before.shape[1:])
            after = self._buffer.ready[name][online]
            if self._config.retain is None:
                both = np.concatenate([before, after])
                return both[order].reshape(count, size, *both.shape[1:])
            parts = (part.reshape(count, -1, *part.shape[1:]) for part in (before, after))
            return np.concatenate([*parts], axis=1)

        order = random.permutation(count * size) if self._config.retain is None else None
        return Batch(*(mixed(name) for name in Batch._fields))

    def keep(self, step: int) -> None:
        """Write down the rows since the last time, before the checkpoint of this step."""
        if step == 0 or self._actors is None or step == self._kept:
            return
        rows = self._buffer.rows.part(self._kept, step)
        self._folder.save_rows(step, {**rows, "cuts": np.asarray(self._cuts, np.int64)})
        self._kept, self._cuts = step, []

    def metrics(self, since: int, step: int) -> dict[str, float]:
        """What is known of the rows between two steps."""
        rows, share = self._buffer.rows, self._share(step)
        return {
            "online/beta": schedule.weight(self._config, share, self._beta),
            "online/pessimism": share,
            "online/q": float(rows["values"][since:step].mean()),
            "online/std": float(rows["spreads"][since:step].mean()),
            "online/reward": float(rows["rewards"][since:step].mean()),
            "online/rows": float(self._buffer.ready.size),
        }

    def close(self) -> None:
        if self._actors is not None:
            self._actors.close()

    def _begin(self, step: int) -> None:
        """Be where the run was at a step: rows from its folder, episodes played again."""
        learner, config = self._learner, self._config
        count = config.environments
        self._buffer = Buffer(
            learner.scaling,
            count,
            n_step=learner.n_step,
            discount=learner.discount,
            next_actions=learner.algorithm.wants_next_actions,
            returns=learner.algorithm.wants_returns,
        )
        watched = config.guard and not config.from_nothing
        self._guard = schedule.Guard(self._return_before() if watched else None)
        for file in self._folder.rows(step):
            for cut in file.pop("cuts"):
                self._buffer.cut(int(cut))
            for row in zip(*(file[name] for name in Row._fields), strict=True):
                self._buffer.add(Row(*row))
        if self._buffer.rows.size != step:
            raise CharyError(
                f"{self._folder.path}/online: has {self._buffer.rows.size} rows, but the checkpoint is "
                f"of step {step}. Restore its files, or start again in another --run."
            )
        for episode in self._folder.read("episodes"):
            self._guard.add(episode["return"])
        self._actors = Actors(self._task, count, learner.seed, step_seconds=config.step_seconds)
        self._times, self._returns = [0] * count, [0.0] * count
        self._kept = step
        if step:
            self._replay(self._actors)

    def _replay(self, actors: Actors) -> None:
        rows, count = self._buffer.rows, self._config.environments
        ends = rows["terminals"] | rows["timeouts"]
        for environment in range(count):
            finished, own = unfinished(ends, environment, count)
            seen = rows["next_observations"][own]
            current = actors.replay(environment, finished, rows["actions"][own], seen)
            if current is None:
                warnings.warn(
                    f"{self._folder.path}: copy {environment} of {self._task.name} does not repeat its "
                    "episode from the same seed and actions, so a new one begins. The run continues as "
                    "good as before, but not with the same bits.",
                    stacklevel=2,
                )
                self._buffer.cut(environment)
                self._cuts.append(environment)
                current, own = actors.reset(environment, finished + 1), []
            actors.observations[environment] = current
            self._times[environment] = len(own)
            self._returns[environment] = _sum(rows["rewards"][own])

    def _return_before(self) -> float | None:
        """Of the policy that the run started with, as evaluated before its first step."""
        measured = [e["return"] for e in self._folder.read("evals") if e["step"] == 0]
        return float(measured[0]) if measured else None


def _sum(rewards: np.ndarray) -> float:
    """One after the other, as they were added up when they came."""
    total = 0.0
    for reward in rewards.tolist():
        total += reward
    return total


def _pessimism_of(algorithm: Algorithm[Any], state: Any) -> dict[str, Any]:
    return {name: getattr(state.hyper, name) for name in algorithm.pessimism}


def _with_pessimism(state: Any, own: dict[str, Any], share: float, policy_beta: float) -> Any:
    """The state with this share of the run's own settings; beta goes to another number than 0."""
    if not own:
        return state
    ends = {"beta": policy_beta}
    scaled = {
        name: np.float32(share * float(value) + (1.0 - share) * ends.get(name, 0.0))
        for name, value in own.items()
    }
    return state._replace(hyper=state.hyper._replace(**scaled))
