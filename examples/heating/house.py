"""A house that is heated, and what its old controller logged: 209 times 24 hours, from any hour on.

    python examples/heating/house.py heating.csv

Every quarter of an hour the log has what was measured (indoor and outdoor temperature in degrees C, the
sun in W/m2, the price of power in EUR/MWh, the hour), the heating power in W, and the reward

    r = -(cost in EUR + 0.15 * how far indoors is below 20.5 or above 21.5 degrees, by day)

with columns nobody needs and readings that are missing, as in real logs.
"""

import csv
import sys
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

EPISODES, QUARTERS = 209, 96
MOST_POWER = 4000.0
COLUMNS = ("indoor_c", "outdoor_c", "sun_w_m2", "price_eur_mwh", "hour")
CAPACITY = 2500.0
"""Wh that warm the house by one degree."""
LOSS = 110.0
"""W lost for each degree between inside and outside."""
MISSING = 0.004
"""Share of rows in which a reading is missing."""


class Weather(NamedTuple):
    """24 hours: (quarter,) each."""

    hour: np.ndarray
    outdoor: np.ndarray
    sun: np.ndarray
    price: np.ndarray


def weather_of(rng: np.random.Generator) -> Weather:
    """Of winter: cold mornings, some sun, and power that is dear in the morning and the evening."""
    hours = (rng.integers(QUARTERS) + np.arange(QUARTERS + 1)) % QUARTERS / 4.0
    mean, swing = rng.normal(3.0, 4.0), rng.uniform(1.0, 4.0)
    outdoor = mean - swing * np.cos((hours - 3.0) * np.pi / 12.0)
    clear = rng.uniform(0.05, 1.0)
    sun = 450.0 * clear * np.clip(np.sin((hours - 8.0) * np.pi / 9.0), 0.0, None) * (hours < 17.0)
    peaks = np.exp(-((hours - 8.0) ** 2) / 4.0) + 1.3 * np.exp(-((hours - 18.5) ** 2) / 5.0)
    price = rng.uniform(60.0, 120.0) + rng.uniform(90.0, 220.0) * peaks
    noise = rng.normal(0.0, 1.0, (3, QUARTERS + 1))
    return Weather(
        hours,
        outdoor + 0.2 * noise[0],
        np.clip(sun * (1.0 + 0.1 * noise[1]), 0.0, None),
        np.clip(price + 4.0 * noise[2], 5.0, None),
    )


def warmed(indoor: float, outdoor: float, sun: float, power: float) -> float:
    """Indoor temperature a quarter of an hour later."""
    flow = power - LOSS * (indoor - outdoor) + 2.0 * sun
    return indoor + 0.25 * flow / CAPACITY


def reward_of(indoor: float, hour: float, price: float, power: float) -> float:
    """Minus what the quarter of an hour costs, in money and in comfort."""
    cost = power / 1000.0 * 0.25 * price / 1000.0
    off = max(20.5 - indoor, indoor - 21.5, 0.0) if 6.0 <= hour < 22.5 else 0.0
    return -(cost + 0.15 * off)


class House(gymnasium.Env[np.ndarray, np.ndarray]):
    """The same house as a task: what nobody has who only has the log."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (len(COLUMNS),), np.float32)
    action_space = gymnasium.spaces.Box(0.0, MOST_POWER, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.weather = weather_of(self.np_random)
        self.indoor = float(self.np_random.normal(19.5, 1.0))
        self.quarter = 0
        return self._observation(), {}

    def _observation(self) -> np.ndarray:
        hour, *now = (float(series[self.quarter]) for series in self.weather)
        return np.array([self.indoor, *now, hour], np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        power = float(np.clip(np.asarray(action).item(), 0.0, MOST_POWER))
        hour, outdoor, sun, price = (float(series[self.quarter]) for series in self.weather)
        reward = reward_of(self.indoor, hour, price, power)
        draught = float(self.np_random.normal(0.0, 0.03))
        self.indoor = warmed(self.indoor, outdoor, sun, power) + draught
        self.quarter += 1
        return self._observation(), reward, False, self.quarter == QUARTERS, {}


class Controller:
    """The old controller: a thermostat with a set point of its mood, a hand on the knob now and
    then, and sometimes a night setback."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng
        self._set_point = rng.uniform(19.0, 23.0)
        self._gain = rng.uniform(600.0, 2000.0)
        self._setback = rng.choice([0.0, 2.0, 4.0])
        self._hand = 0.0

    def power(self, observation: np.ndarray) -> float:
        indoor, outdoor, _, _, hour = observation.tolist()
        if self._rng.random() < 0.08:
            self._hand = self._rng.normal(0.0, 900.0)
        target = self._set_point - (self._setback if hour < 5.0 or hour > 22.0 else 0.0)
        steady = 0.8 * LOSS * (target - outdoor)
        wish = steady + self._gain * (target - indoor) + self._hand + self._rng.normal(0.0, 200.0)
        return float(np.clip(wish, 0.0, MOST_POWER))


class Log(NamedTuple):
    """What was measured, done and paid: (row, ...)."""

    observations: np.ndarray
    powers: np.ndarray
    rewards: np.ndarray
    episodes: np.ndarray


def make_log(episodes: int = EPISODES, seed: int = 0) -> Log:
    """What the old controller did, 96 rows an episode."""
    rng = np.random.default_rng(seed)
    house = House()
    rows: list[tuple[np.ndarray, float, float, int]] = []
    for episode in range(episodes):
        observation, _ = house.reset(seed=int(rng.integers(2**31)))
        controller, over = Controller(rng), False
        while not over:
            power = round(controller.power(observation), 1)
            following, reward, _, over, _ = house.step(np.array([power]))
            rows.append((observation, power, reward, episode))
            observation = following
    observations, powers, rewards, ids = zip(*rows, strict=True)
    return Log(np.stack(observations), np.array(powers), np.array(rewards), np.array(ids))


def write_csv(log: Log, path: Path, seed: int = 0) -> None:
    """The log as people keep it: text, spare columns, and readings that are missing."""
    rng = np.random.default_rng([seed, 1])
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["episode", "time", *COLUMNS, "power_w", "reward", "humidity_pct", "firmware"])
        for row, (observation, power, reward, episode) in enumerate(zip(*log, strict=True)):
            readings = [f"{number:.2f}" for number in observation]
            if rng.random() < MISSING:
                readings[int(rng.integers(4))] = ""
            seconds = (row % QUARTERS) * 900
            humidity = f"{rng.normal(45.0, 6.0):.1f}" if rng.random() > 0.2 else ""
            out.writerow(
                [
                    episode,
                    int(episode) * 200_000 + seconds,
                    *readings,
                    f"{power:.1f}",
                    f"{reward:.5f}",
                    humidity,
                    "v2.1",
                ]
            )


if __name__ == "__main__":
    write_csv(make_log(), Path(sys.argv[1] if len(sys.argv) > 1 else "heating.csv"))
