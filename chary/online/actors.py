"""The environments that a run acts in, and how they are found again after a kill.

Every episode is reset with a seed of its own, from (run's seed, environment, episode). A run that
resumes replays the unfinished episodes with the actions that it took, and compares what it sees with
what it saw.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from chary.envs import Task
from chary.errors import TaskError
from chary.host.importing import in_short

STREAM = 0x0E57
"""Tells seeds of acted episodes from those of evaluations."""
LAST_WORD = 10.0
"""Seconds that an environment gets to notice that it is stopped."""


class Outcome(NamedTuple):
    """What a step led to."""

    observation: np.ndarray
    reward: float
    terminated: bool
    truncated: bool
    success: bool


class Actors:
    """So many copies of a task, each in an episode."""

    def __init__(self, task: Task, count: int, seed: int, *, step_seconds: float):
        self._task, self._seed, self._seconds = task, seed, step_seconds
        self._environments = [task.make() for _ in range(count)]
        self._watch = Watch(f"--env {task.name}", step_seconds)
        self.episodes = [0] * count
        """Number of the episode that each is in."""
        self.observations = np.stack([self.reset(i, 0) for i in range(count)])

    def reset(self, environment: int, episode: int) -> np.ndarray:
        """Begin an episode."""
        sequence = np.random.SeedSequence([STREAM, self._seed, environment, episode])
        seed = int(sequence.generate_state(1)[0])
        self.episodes[environment] = episode
        with self._watched(f"the reset of episode {episode} of copy {environment}"):
            first, _ = self._environments[environment].reset(seed=seed)
            return self._checked(first)

    def step(self, environment: int, action: np.ndarray, time_in: int) -> Outcome:
        """Take an action; the observation is kept as the environment's current one."""
        where = f"step {time_in} of episode {self.episodes[environment]} of copy {environment}"
        with self._watched(where):
            following, reward, terminated, truncated, info = self._environments[environment].step(
                action
            )
            observation, reward = self._checked(following), float(np.float32(reward))  # as kept
            if not np.isfinite(reward):
                raise TaskError(f"gave a reward that is {reward}.")
            return Outcome(
                observation,
                reward,
                bool(terminated),
                bool(truncated and not terminated),
                bool(info.get("success", False)),
            )

    def replay(
        self, environment: int, episode: int, actions: np.ndarray, seen: np.ndarray
    ) -> np.ndarray | None:
        """Be where an episode was after these actions; None where other states are seen on the way."""
        current = self.reset(environment, episode)
        for time_in, (action, expected) in enumerate(zip(actions, seen, strict=True)):
            outcome = self.step(environment, action, time_in)
            same = np.array_equal(outcome.observation, expected)
            if not same or outcome.terminated or outcome.truncated:
                return None
            current = outcome.observation
        return current

    def close(self) -> None:
        for environment in self._environments:
            environment.close()

    def _checked(self, observation: Any) -> np.ndarray:
        found = np.asarray(observation, np.float32)
        if not np.isfinite(found).all():
            column = int(np.flatnonzero(~np.isfinite(found))[0])
            raise TaskError(
                f"led to an observation that is {found.ravel()[column]} in column {column}."
            )
        return found

    @contextmanager
    def _watched(self, where: str) -> Iterator[None]:
        """Whatever goes wrong in a user's simulator becomes one message."""
        try:
            with self._watch:
                yield
        except TaskError as error:
            raise TaskError(f"{self._task.name}: {where} {error}") from None
        except Exception as error:
            raise TaskError(f"{self._task.name}: {where} failed ({in_short(error)}).") from error


class Watch:
    """Ends a step that takes too long: by an alarm where Python still runs, else with the process."""

    def __init__(self, name: str, seconds: float):
        self._name, self._seconds = name, seconds
        self._since: float | None = None
        self._alarms = threading.current_thread() is threading.main_thread() and hasattr(
            signal, "setitimer"
        )
        threading.Thread(target=self._look, daemon=True, name="chary-watch").start()

    def __enter__(self) -> None:
        self._since = time.monotonic()
        if self._alarms:
            signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        self._since = None
        if self._alarms:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _ring(self, *_: object) -> None:
        raise TaskError(f"took longer than {self._seconds:g} seconds (--step-seconds).")

    def _look(self) -> None:
        while True:
            time.sleep(1.0)
            since = self._since
            if since is not None and time.monotonic() - since > self._seconds + LAST_WORD:
                print(
                    f"chary: error: {self._name}: a step hangs for more than {self._seconds:g} seconds "
                    "and cannot be interrupted. The run is kept up to its last checkpoint; `chary "
                    "resume` continues it.",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(2)


def unfinished(ends: np.ndarray, environment: int, count: int) -> tuple[int, Sequence[int]]:
    """An environment's number of finished episodes, and the rows of the one that it is in."""
    own = np.arange(environment, len(ends), count)
    finished = np.flatnonzero(ends[own])
    return len(finished), own[finished[-1] + 1 :].tolist() if len(finished) else own.tolist()
