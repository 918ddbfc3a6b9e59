"""Observations as vectors: one rule for what datasets hold and for what environments show.

A dict is flattened as `gymnasium.spaces.flatten` does it, key after key. Its `achieved_goal` is left
out: it only repeats a part of the observation, for relabelling goals.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from chary.errors import CharyError

LEFT_OUT = "achieved_goal"


def vector_space(space: spaces.Space[Any], source: str) -> spaces.Box:
    """The space of the flattened observations, or an error where it is no space of vectors."""
    lows, highs = [], []
    for name, box in _leaves(space, source, ""):
        lows.append(box.low.ravel())
        highs.append(box.high.ravel())
        if box.dtype == np.uint8 or len(box.shape) > 2:
            raise CharyError(
                f"{source}: {name or 'the observation'} is an image (shape {box.shape}, {box.dtype}); "
                "only vectors are supported."
            )
    if not sum(map(len, lows)):
        raise CharyError(f"{source}: its observations are empty.")
    low, high = np.concatenate(lows), np.concatenate(highs)
    return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def flatten(space: spaces.Space[Any], observations: Any, rows: int | None = None) -> np.ndarray:
    """One observation of the space as a vector; with `rows`, a batch of that many as a matrix."""
    shape = (-1,) if rows is None else (rows, -1)
    if not isinstance(space, spaces.Dict):
        return np.asarray(observations).reshape(shape).astype(np.float32)
    parts = [
        flatten(part, observations[key], rows)
        for key, part in space.spaces.items()
        if key != LEFT_OUT
    ]
    return np.concatenate(parts, axis=-1)


class FlatObservation(
    gymnasium.ObservationWrapper[np.ndarray, Any, Any], gymnasium.utils.RecordConstructorArgs
):
    """An environment whose observations are float32 vectors."""

    def __init__(self, env: gymnasium.Env[Any, Any]):
        # Recorded, so that the environment's spec holds the wrapper too.
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        super().__init__(env)
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self.original_space = env.observation_space  # some environments make it anew when asked
        self.observation_space = vector_space(self.original_space, name)

    def observation(self, observation: Any) -> np.ndarray:
        return flatten(self.original_space, observation)


def _leaves(space: spaces.Space[Any], source: str, name: str) -> list[tuple[str, spaces.Box]]:
    """The boxes of a space in the order in which they are flattened."""
    if isinstance(space, spaces.Box):
        return [(name, space)]
    if not isinstance(space, spaces.Dict):
        raise CharyError(
            f"{source}: {name or 'the observation'} is {space}; only boxes, and dicts of them, "
            "are supported."
        )
    return [
        leaf
        for key, part in space.spaces.items()
        if key != LEFT_OUT
        for leaf in _leaves(part, source, f"{name}/{key}".lstrip("/"))
    ]
