"""How numbers in a dataset become numbers for learning, and back: one rule for training and acting."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from chary.data.columns import pieces
from chary.data.dataset import Dataset
from chary.errors import CharyError

LOOKED_AT = 200_000
"""Rows, evenly spaced, that quantiles are taken from."""
NINE_TENTHS = 2 * 1.6449
"""Deviations between the 5% and the 95% quantile of a normal distribution."""
UNEVEN = 10.0
"""Columns whose sizes differ by more than this factor are not learned from alike."""
STANDARD_DISCOUNT, STANDARD_RANGE = 0.99, 20.0
"""The discounted returns of data of one's own are scaled to this range; see `standard_rewards`."""


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
        cls, dataset: Dataset, reward: RewardTransform, *, normalise_observations: str | bool
    ) -> "Scaling":
        """The scaling for a dataset; `normalise_observations` is none, moments or quantiles."""
        if normalise_observations == "quantiles":
            mean, std = centre_and_scale(dataset.observations)
        elif normalise_observations in (True, "moments"):
            mean, std = _moments(dataset.observations)
        else:
            mean = np.zeros(dataset.observation_size, np.float32)
            std = np.ones(dataset.observation_size, np.float32)
        std = np.where(std < 1e-6, np.float32(1.0), std)  # constant columns stay finite
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


def centre_and_scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median of each column and (q95 - q5) / 3.29, a normal distribution's deviation.

    A sentinel such as -999 in a few rows of a hundred moves neither. Where nine tenths of a column are
    one number, as in a flag that is seldom set, the scale is its deviation within the middle 99.8%; and
    where that is nothing too, of all of it.
    """
    looked_at = np.asarray(values[:: max(1, len(values) // LOOKED_AT)], np.float64)
    least, low, centre, high, most = np.quantile(looked_at, (0.001, 0.05, 0.5, 0.95, 0.999), axis=0)
    scale = (high - low) / NINE_TENTHS
    for deviation in (np.clip(looked_at, least, most).std(axis=0), looked_at.std(axis=0)):
        scale = np.where(scale > 1e-6, scale, deviation)
    return centre.astype(np.float32), scale.astype(np.float32)


class Uneven(NamedTuple):
    """The largest and the smallest column of a dataset whose columns are of very different size."""

    largest: int
    smallest: int
    factor: float
    """How many times as large the one is."""

    def describe(self, names: Sequence[str] = ()) -> str:
        """In words, by the columns' names where they are known."""
        large, small = (
            names[column] if names else f"column {column}"
            for column in (self.largest, self.smallest)
        )
        return f"observations differ in scale: {large} is about {self.factor:.0f} times {small}"


def uneven_scales(observations: np.ndarray) -> Uneven | None:
    """Whether columns differ in size by more than a factor of ten; those that never change are left out.

    The size of a column is sqrt(centre^2 + scale^2), what a network sees of it: a pressure of 1013 +- 5
    is as large as a power of 1000.
    """
    centre, scale = centre_and_scale(observations)
    moving = np.flatnonzero(scale > 1e-6)
    if len(moving) < 2:
        return None
    sizes = np.hypot(centre, scale)[moving]
    largest, smallest = int(sizes.argmax()), int(sizes.argmin())
    factor = float(sizes[largest] / sizes[smallest])
    return Uneven(int(moving[largest]), int(moving[smallest]), factor) if factor > UNEVEN else None


def standard_rewards(dataset: Dataset) -> RewardTransform:
    """The scale, and where no episode truly ends the shift, that suit rewards in any unit.

    Nine tenths of the discounted returns from a row to its episode's end, sum_k 0.99^k r_(t+k), lie in a
    range of 20 after it. In MSG a Q-value at the policy's action is held down by about alpha, and an
    ensemble starts with values and a spread of about 1: both mean the same for every unit of reward
    only once returns are of one size. A shift adds the same to all returns of a task without an end, so
    it changes no policy there; where an episode can end it would, and is left out.
    """
    rewards = np.asarray(dataset.rewards, np.float64)
    shift = 0.0 if dataset.terminals.any() else _rounded(-float(np.median(rewards)))
    returns = returns_to_go(rewards + shift, dataset.episode_ends, STANDARD_DISCOUNT)
    low, high = np.quantile(returns, (0.05, 0.95))
    spread = next((s for s in (high - low, NINE_TENTHS * returns.std()) if s > 1e-9), None)
    if spread is None:  # all rewards alike: nothing to learn, and nothing to scale
        return RewardTransform()
    return RewardTransform(_rounded(STANDARD_RANGE / float(spread)), shift)


def returns_to_go(rewards: np.ndarray, ends: np.ndarray, discount: float) -> np.ndarray:
    """G_t = r_t + discount G_(t+1), from nothing after the end of an episode."""
    kept = np.full(len(rewards), discount)
    kept[ends] = 0.0

    def backwards() -> Iterator[float]:
        later = 0.0
        for reward, share in zip(rewards[::-1].data, kept[::-1].data, strict=True):
            later = reward + share * later
            yield later

    # SciPy's lfilter computes the same, but importing it takes longer than a million rows here.
    return np.fromiter(backwards(), np.float64, len(rewards))[::-1]


def _rounded(number: float) -> float:
    """To three digits: enough, and short to write down."""
    return float(f"{number:.3g}")


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
