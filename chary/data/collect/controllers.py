"""Trained policies that collect data: weights in an npz file, run in plain NumPy.

Collecting asks for one action at a time, between two physics steps. For networks of this size NumPy
answers in some tens of microseconds, less than handing the question to a compiled program would take.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chary.data.formats import npz
from chary.errors import CharyError

# Bounds on the log standard deviation that depends on the observation, in rlkit and Stable-Baselines3.
LOG_STD_BOUNDS = (-20.0, 2.0)
MUST_HOLD = (
    "A controller file is an npz archive of weights, each layer with /weight (out, in) and /bias, in "
    "one of three layouts: fc0, fc1, ..., last_fc, last_fc_log_std (rlkit and D4RL: ReLU, tanh of a "
    "Gaussian); actor/latent_pi/0, /2, ..., actor/mu, actor/log_std (Stable-Baselines3 SAC and TQC: the "
    "same); mlp_extractor/policy_net/0, /2, ..., action_net, and a vector log_std (its on-policy "
    "algorithms: tanh, Gaussian; action_net alone is a linear policy). obs_norm/mean, /var, /eps and "
    "/clip are optional."
)


class Layer(NamedTuple):
    weight: np.ndarray
    """(in, out)."""
    bias: np.ndarray

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        return inputs @ self.weight + self.bias


class Normaliser(NamedTuple):
    """Observations as the policy saw them in training: centred, scaled, clipped."""

    mean: np.ndarray
    scale: np.ndarray
    clip: float

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        scaled = (observations - self.mean) / self.scale
        return np.clip(scaled, -self.clip, self.clip).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Controller:
    """A policy from observations to actions in [-1, 1]."""

    hidden: tuple[Layer, ...]
    mean: Layer
    log_std: Layer | np.ndarray | None
    """From the last hidden layer, the same everywhere, or None for a policy without randomness."""
    squashed: bool
    """ReLU layers and a tanh at the end; otherwise tanh layers and a plain Gaussian."""
    normaliser: Normaliser | None

    @property
    def observation_size(self) -> int:
        return (*self.hidden, self.mean)[0].weight.shape[0]

    @property
    def action_size(self) -> int:
        return self.mean.weight.shape[1]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of every number in the policy."""
        digest = hashlib.sha256(str(self.squashed).encode())
        for part in (*self.hidden, self.mean, self.log_std, self.normaliser):
            arrays = part if isinstance(part, tuple) else (part,)
            for array in map(np.asarray, () if part is None else arrays):
                digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
            digest.update(b"|")
        return digest.hexdigest()

    def gaussian(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and log standard deviation before any squashing, for one observation or a batch."""
        features = self.normaliser(observations) if self.normaliser else observations
        features = np.asarray(features, np.float32)
        for layer in self.hidden:
            features = layer(features)
            if self.squashed:
                np.maximum(features, 0.0, out=features)
            else:
                np.tanh(features, out=features)
        log_std = self.log_std
        if isinstance(log_std, Layer):
            log_std = np.clip(log_std(features), *LOG_STD_BOUNDS)
        return self.mean(features), log_std

    def act(self, observations: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Actions for one observation or a batch: sampled, or the most typical ones without `rng`."""
        actions, log_std = self.gaussian(observations)
        if rng is not None and log_std is not None:
            actions += np.exp(log_std) * rng.standard_normal(actions.shape, np.float32)
        return np.tanh(actions) if self.squashed else np.clip(actions, -1.0, 1.0)


class _Layout(NamedTuple):
    """Where a training library keeps what."""

    hidden: str
    mean: str
    log_std: str
    squashed: bool


_LAYOUTS = (
    _Layout("fc", "last_fc", "last_fc_log_std", squashed=True),
    _Layout("actor/latent_pi/", "actor/mu", "actor/log_std", squashed=True),
    _Layout("mlp_extractor/policy_net/", "action_net", "log_std", squashed=False),
)


def read_controller(path: Path) -> Controller:
    """The policy in an npz file, whichever of the known layouts it has."""
    if not path.is_file():
        raise CharyError(f"{path}: no such controller file. {MUST_HOLD}")
    arrays, _ = npz.read(path)
    layout = next((layout for layout in _LAYOUTS if f"{layout.mean}/weight" in arrays), None)
    if layout is None:
        found = ", ".join(sorted(arrays)[:8]) or "nothing"
        raise CharyError(f"{path}: not a controller; it holds {found}. {MUST_HOLD}")
    for key, array in arrays.items():
        if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise CharyError(f"{path}: {key} must hold finite numbers.")
    reader = _Reader(path, arrays)
    numbers = sorted(
        int(match[1])
        for key in list(arrays)
        if (match := re.fullmatch(re.escape(layout.hidden) + r"(\d+)/weight", key))
    )
    hidden = tuple(reader.layer(f"{layout.hidden}{number}") for number in numbers)
    mean = reader.layer(layout.mean)
    log_std: Layer | np.ndarray | None = None
    if f"{layout.log_std}/weight" in arrays:
        log_std = reader.layer(layout.log_std)
    elif layout.log_std in arrays:
        log_std = reader.take(layout.log_std, (mean.bias.size,)).astype(np.float32)
    controller = Controller(hidden, mean, log_std, layout.squashed, normaliser=None)
    normaliser = reader.normaliser(controller.observation_size)
    reader.refuse_the_rest()
    _check_sizes(controller, path)
    return Controller(hidden, mean, log_std, layout.squashed, normaliser)


class _Reader:
    """Takes arrays out of an archive, with errors that name the file and the key."""

    def __init__(self, path: Path, arrays: dict[str, np.ndarray]):
        self.path, self.left = path, dict(arrays)

    def take(self, key: str, shape: tuple[int, ...]) -> np.ndarray:
        if key not in self.left:
            raise CharyError(f"{self.path}: {key} is missing. {MUST_HOLD}")
        array = self.left.pop(key)
        if array.shape != shape:
            raise CharyError(f"{self.path}: {key} has shape {array.shape}, but must be {shape}.")
        return array

    def layer(self, name: str) -> Layer:
        shape = self.left[f"{name}/weight"].shape if f"{name}/weight" in self.left else ()
        if len(shape) != 2 or 0 in shape:
            raise CharyError(f"{self.path}: {name}/weight must be a matrix (out, in), not {shape}.")
        weight = self.take(f"{name}/weight", shape)
        # A linear policy has no bias.
        bias = np.zeros(shape[0])
        if f"{name}/bias" in self.left:
            bias = self.take(f"{name}/bias", (shape[0],))
        return Layer(np.ascontiguousarray(weight.T, np.float32), bias.astype(np.float32))

    def normaliser(self, size: int) -> Normaliser | None:
        if not any(key.startswith("obs_norm/") for key in self.left):
            return None
        mean, variance = (self.take(f"obs_norm/{key}", (size,)) for key in ("mean", "var"))
        small, clip = (self.take(f"obs_norm/{key}", ()) for key in ("eps", "clip"))
        if (variance + small <= 0).any() or clip <= 0:
            raise CharyError(f"{self.path}: obs_norm/var, /eps and /clip must be positive.")
        return Normaliser(mean, np.sqrt(variance + small), float(clip))

    def refuse_the_rest(self) -> None:
        """What is not understood would make another policy if it were passed over."""
        if self.left:
            raise CharyError(
                f"{self.path}: {', '.join(sorted(self.left)[:4])} not understood. {MUST_HOLD}"
            )


def _check_sizes(controller: Controller, path: Path) -> None:
    """Every layer takes what the one before gives."""
    heads = [controller.mean]
    if isinstance(controller.log_std, Layer):
        heads.append(controller.log_std)
    chains = [(*controller.hidden, head) for head in heads]
    fits = all(
        before.weight.shape[1] == after.weight.shape[0]
        for chain in chains
        for before, after in pairwise(chain)
    )
    if not fits or len({head.bias.size for head in heads}) > 1:
        shapes = ", ".join(str(layer.weight.shape[::-1]) for layer in (*controller.hidden, *heads))
        raise CharyError(f"{path}: the layers do not fit each other: {shapes} (out, in).")
