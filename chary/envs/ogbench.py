"""OGBench's single-task environments, made reproducible: `ogbench-<dataset>` names data and task."""

import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from chary.envs import Task
from chary.errors import CharyError, unknown_name

PREFIX = "ogbench-"
# <environment>-<how the data was collected>-singletask[-task<number>]-v0
DATASET = re.compile(r"(?P<environment>.+)-(?P<kind>[a-z]+)-singletask(?P<task>-task\d)?-v0")


def find(name: str) -> Task | None:
    """The task of an OGBench single-task dataset."""
    if not name.startswith(PREFIX):
        return None
    parse(name)
    return Task(name, make=partial(make, name), has_success=True)


def parse(name: str) -> re.Match[str]:
    """The parts of a name, or an error that says what names look like."""
    dataset = name.removeprefix(PREFIX)
    parts = DATASET.fullmatch(dataset)
    if dataset.startswith(("visual-", "powderworld-")):
        raise CharyError(
            f"{name}: observes images; only OGBench's state-based tasks are supported."
        )
    if parts is None:
        stem = re.sub(r"(-oraclerep|-singletask.*)?(-v\d+)?$", "", dataset)
        raise CharyError(
            f"{name}: not a single-task dataset. OGBench's goal-conditioned data has no reward of its "
            f"own; take one of its tasks: {PREFIX}{stem}-singletask-v0, or -singletask-task1-v0 to "
            "-task5-v0."
        )
    return parts


def make(name: str, **options: Any) -> gymnasium.Env[np.ndarray, Any]:
    """The environment, with vectors of float32 to observe and all its randomness from the seed."""
    from chary.envs.flatten import FlatObservation

    return FlatObservation(OwnRandomness(make_original(name, **options)))


def make_original(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """The environment as OGBench has it."""
    try:
        import ogbench  # noqa: F401  # registers its environments
    except ImportError as error:
        raise CharyError(
            f"{name}: OGBench is not installed: pip install 'chary[ogbench]'"
        ) from error
    identity = environment_id(name)
    if identity not in gymnasium.registry:
        tasks = [key for key in gymnasium.registry if "singletask" in key]
        raise unknown_name("OGBench environment", identity, tasks, f"(from the name {name})")
    with _no_file_left(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of float64 bounds, all ones, in a space of float32
        environment = gymnasium.make(identity, disable_env_checker=True, **options)
        _pin_action_space(environment.unwrapped)
    return environment


def environment_id(name: str) -> str:
    """OGBench's own name of the environment, which does not say how data was collected."""
    parts = parse(name)
    return f"{parts['environment']}-singletask{parts['task'] or ''}-v0"


class OwnRandomness(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Keeps an environment that draws from NumPy's global generator to a stream of its own.

    OGBench places starts and teleports that way: without this, episodes would depend on what else runs.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]):
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self.stream: Any = np.random.RandomState().get_state()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.stream = np.random.RandomState(seed).get_state()
            self.env.action_space.seed(seed)  # it also takes random actions while it resets
        with self._streaming():
            return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        with self._streaming():
            return self.env.step(action)

    @contextmanager
    def _streaming(self) -> Iterator[None]:
        outside = np.random.get_state()
        np.random.set_state(self.stream)
        try:
            yield
        finally:
            self.stream = np.random.get_state()
            np.random.set_state(outside)


def _pin_action_space(environment: Any) -> None:
    """OGBench's arms make a new action space whenever asked, which no seed could reach."""
    kind = type(environment)
    if isinstance(getattr(kind, "action_space", None), property):
        pinned = {"action_space": environment.action_space}
        environment.__class__ = type(kind.__name__, (kind,), pinned)


@contextmanager
def _no_file_left() -> Iterator[None]:
    """OGBench writes each maze to a temporary file, and leaves it there and open."""
    made: list[tuple[int, str]] = []
    original = tempfile.mkstemp

    def noted(*arguments: Any, **options: Any) -> tuple[int, str]:
        made.append(original(*arguments, **options))
        return made[-1]

    tempfile.mkstemp = noted
    try:
        yield
    finally:
        tempfile.mkstemp = original
        for handle, path in made:
            os.close(handle)
            os.unlink(path)
