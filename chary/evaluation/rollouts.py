"""Rolling a policy out in its task, with every episode kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chary.envs import Task

SIDE_BY_SIDE = 16
"""Environments stepped together; the results do not depend on it."""


class Moments(NamedTuple):
    """When each row of observations is: what is random in an action depends on nothing else."""

    episodes: np.ndarray
    """The number of the row's episode."""
    times: np.ndarray
    """Actions taken before in that episode."""


Act = Callable[[np.ndarray, Moments], np.ndarray]
"""`act(observations, moments)`: a row of actions for every row, in the environment's units."""


@dataclass(frozen=True)
class EvalResult:
    """Results of an evaluation, episode by episode."""

    returns: np.ndarray
    """Sum of the environment's rewards in each episode."""
    lengths: np.ndarray
    successes: np.ndarray | None
    """Whether each episode succeeded; None if the task has no success."""
    score: float | None
    """Normalised mean return, 0 to 100 between the task's reference returns."""
    rewards: list[np.ndarray]
    """Every reward of every episode."""
    starts: np.ndarray
    """(episode, observation): where each episode began."""
    first_actions: np.ndarray
    """(episode, action): the first action of each episode."""
    paths: list[np.ndarray]
    """Observations of the first few episodes, start and end included."""
    act: str = "mode"
    """How the policy acted: `mode` or `sample`."""
    sampled: "EvalResult | None" = None
    """The same starts with sampled actions, with `act="both"`."""

    @property
    def success(self) -> float | None:
        """Share of episodes that succeeded."""
        return None if self.successes is None else float(self.successes.mean())

    @property
    def steps_to_goal(self) -> float | None:
        """Mean length of the episodes that succeeded."""
        if self.successes is None or not self.successes.any():
            return None
        return float(self.lengths[self.successes].mean())

    def summary(self) -> dict[str, float | None]:
        """The numbers shown in tables."""
        return {
            "score": self.score,
            "success": self.success,
            "steps_to_goal": self.steps_to_goal,
            "return": float(self.returns.mean()),
            "return_std": float(self.returns.std()),
            "length": float(self.lengths.mean()),
        }

    def record(self) -> dict[str, Any]:
        """One line of the evaluation log, with every episode in it."""
        sampled = {} if self.sampled is None else {"sampled": self.sampled._numbers()}
        return {**self._numbers(), "act": self.act, **sampled}

    def _numbers(self) -> dict[str, Any]:
        successes = None if self.successes is None else self.successes.tolist()
        return {
            **self.summary(),
            "returns": self.returns.tolist(),
            "lengths": self.lengths.tolist(),
            "successes": successes,
        }


def evaluate(
    act: Act,
    task: Task,
    *,
    episodes: int,
    seed: int,
    step: int = 0,
    side_by_side: int = SIDE_BY_SIDE,
    paths: int = 0,
    stop_asked: Callable[[], bool] = lambda: False,
) -> EvalResult:
    """Run whole episodes with the given policy (environment units in and out).

    Episode i is seeded by (seed, step, i) and the policy must act on each row by itself, by its
    observation and moment alone, so results do not depend on how many environments run side by side.
    `stop_asked` is looked at between steps.
    """
    side_by_side = min(side_by_side, episodes, task.at_once or side_by_side)
    environments = [task.make() for _ in range(side_by_side)]
    observations = [[] for _ in range(episodes)]
    rewards: list[list[float]] = [[] for _ in range(episodes)]
    first_actions = [np.zeros(0)] * episodes
    successes = np.zeros(episodes, bool)
    running: dict[int, int] = {}  # which episode each environment is in
    episode_in = np.zeros(side_by_side, np.uint32)  # the same, of those that are over too

    def begin(slot: int, episode: int) -> np.ndarray:
        running[slot] = episode
        episode_in[slot] = episode
        sequence = np.random.SeedSequence([seed, step, episode])
        first, _ = environments[slot].reset(seed=int(sequence.generate_state(1)[0]))
        observations[episode].append(first)
        return first

    current = np.stack([begin(slot, slot) for slot in range(side_by_side)])
    started = side_by_side
    while running:
        if stop_asked():
            raise KeyboardInterrupt
        times = np.array([len(rewards[episode]) for episode in episode_in], np.uint32)
        actions = act(current, Moments(episode_in.copy(), times))
        for slot, episode in list(running.items()):
            following, reward, terminated, truncated, info = environments[slot].step(actions[slot])
            current[slot] = following
            if times[slot] == 0:
                first_actions[episode] = np.array(actions[slot])
            rewards[episode].append(float(reward))
            if episode < paths:
                observations[episode].append(following)
            successes[episode] |= bool(info.get("success", False))
            if terminated or truncated:
                del running[slot]
                if started < episodes:
                    current[slot] = begin(slot, started)
                    started += 1
    for environment in environments:
        environment.close()

    returns = np.array([sum(episode) for episode in rewards])
    return EvalResult(
        returns=returns,
        lengths=np.array([len(episode) for episode in rewards]),
        successes=successes if task.has_success else None,
        score=task.normalise(float(returns.mean())),
        rewards=[np.array(episode) for episode in rewards],
        starts=np.stack([episode[0] for episode in observations]),
        first_actions=np.stack(first_actions),
        paths=[np.stack(observations[episode]) for episode in range(min(paths, episodes))],
    )
