"""How numbers in a dataset become numbers for learning, and back: one rule for training and acting."""

from typing import Any, NamedTuple

import numpy as np

from chary.data.columns import pieces
from chary.data.dataset import Dataset
from chary.errors import CharyError


class RewardTransform(NamedTuple):
    """Learning sees scale * (reward + shift): antmaze's 4 (r - 0.5) is scale 4 and shift -0.5."""

    scale: float = 1.0
    shift: float = 0.0


class Scaling(NamedTuple):
    """Affine maps between the environment's units and the learner's."""

    observation_mean: np.ndarray
    observation_std: np.ndarray
    action_low: np.ndarray
    action_high: np.ndarray
    reward: RewardTransform

    @classmethod
    def of(
        cls, dataset: Dataset, reward: RewardTransform, *, normalise_observations: bool
    ) -> "Scaling":
        """The scaling for a dataset; observations are left as they are unless asked otherwise."""
        if normalise_observations:
            mean, std = _moments(dataset.observations)
            std = np.where(std < 1e-6, np.float32(1.0), std)  # constant columns stay finite
        else:
            mean = np.zeros(dataset.observation_size, np.float32)
            std = np.ones(dataset.observation_size, np.float32)
        return cls(mean, std, dataset.action_low, dataset.action_high, reward)

    def observations(self, observations: Any) -> Any:
        return (observations - self.observation_mean) / self.observation_std

    def rewards(self, rewards: Any) -> Any:
        return np.float32(self.reward.scale) * (rewards + np.float32(self.reward.shift))

    def to_unit(self, actions: Any) -> Any:
        """From the environment's bounds to [-1, 1]."""
        unit = 2.0 * (actions - self.action_low) / (self.action_high - self.action_low) - 1.0
        return np.clip(unit, -1.0, 1.0).astype(np.float32)

    def from_unit(self, actions: Any) -> Any:
        """From [-1, 1] to the environment's bounds."""
        return self.action_low + 0.5 * (actions + 1.0) * (self.action_high - self.action_low)

    def to_json(self) -> dict[str, Any]:
        """Lists of numbers; float32 survives the trip through decimal text exactly."""
        arrays = {name: getattr(self, name).tolist() for name in self._fields[:-1]}
        return arrays | {"reward": self.reward._asdict()}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Scaling":
        arrays = {name: np.asarray(record[name], np.float32) for name in cls._fields[:-1]}
        return cls(**arrays, reward=RewardTransform(**record["reward"]))


def scale_for_returns(dataset: Dataset, span: float) -> float:
    """What rewards are to be multiplied by for the best and worst return to be so far apart."""
    there = float(np.ptp(dataset.episode_returns))
    if there == 0.0:
        raise CharyError(
            f"{dataset.name}: all episodes have the same return, so no --return-range can be reached. "
            "Set --reward-scale instead."
        )
    return span / there


def value_range(dataset: Dataset, reward: RewardTransform, discount: float) -> tuple[float, float]:
    """The least and the most that a discounted sum of rewards like the data's can be.

    A reward at a true end is the last; any other may come again in every step that follows.
    """
    rewards = reward.scale * (np.asarray(dataset.rewards, np.float64) + reward.shift)
    steps = 1.0 / max(1.0 - discount, 1.0 / dataset.size)
    sums = np.where(dataset.terminals, rewards, rewards * steps)
    low, high = float(sums.min()), float(sums.max())
    margin = 0.01 * (high - low) or 1.0  # a target at the very edge has half of its bell outside
    return low - margin, high + margin


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each column, in double precision and without a copy of the whole."""
    total, squares = np.zeros((2, values.shape[1]))
    for rows in pieces(len(values)):
        total += values[rows].sum(axis=0, dtype=np.float64)
    mean = total / len(values)
    for rows in pieces(len(values)):
        squares += ((values[rows] - mean) ** 2).sum(axis=0)
    return mean.astype(np.float32), np.sqrt(squares / len(values)).astype(np.float32)
