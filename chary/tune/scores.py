"""What can be said of policies without a simulator, each number with the episodes it comes from.

Policies are compared on episodes that none of them learned from. Fitted Q-evaluation starts for all of
them from one ensemble, which has learned the returns in the data, and sees the same batches: what
differs between two policies is what they do.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chary.algos.fqe import FQEConfig, make_fqe
from chary.data.dataset import Dataset
from chary.data.scaling import Scaling, returns_to_go
from chary.evaluation.agent import Agent
from chary.evaluation.support import support_of
from chary.execution.program import Carry, compile_chunk, initial_carry, keys
from chary.host.machine import cores
from chary.types import Batch

EPISODES, ROWS = 1_000, 4_000
"""Held-out episodes and rows that are looked at, at most."""
BEFORE = 2
"""Steps on the returns in the data for every step on a policy."""
PARTS, STABLE = 8, 3
"""Fitted Q-evaluation is done in so many parts, and ends after so many with the same ranking."""
PIECE = 2**14
"""States for which a policy is asked at a time."""


class Evidence(NamedTuple):
    """What is known of policies; values are in the learner's units."""

    values: np.ndarray | None
    """(policy, member, episode): each member's value of the policy at the start of every held-out
    episode; None where values cannot be compared."""
    data_values: np.ndarray | None
    """(member, episode): the same of the data's own actions."""
    returns: np.ndarray | None
    """(episode,): the discounted return that these actions had."""
    action_errors: np.ndarray
    """(policy, episode): squared distance from the logged actions, summed over the episode's rows."""
    outside: np.ndarray
    """(policy, episode): rows in which the policy's action is outside the data."""
    rows: np.ndarray
    """(episode,): rows that were looked at."""
    td_errors: np.ndarray
    """(policy,): of its own critics, in deviations of their values; NaN without critics."""
    own_values: np.ndarray
    """(policy,): what its own critics promise at the starts; NaN without critics."""
    reach: tuple[float, float]
    """The least and the largest value that rewards as in the data allow."""
    steps: int
    """Of fitted Q-evaluation for each policy."""


def look_at(
    agents: Sequence[Agent],
    dataset: Dataset,
    held_out: Dataset,
    *,
    learned_from: Dataset,
    scaling: Scaling,
    discount: float | None,
    config: FQEConfig,
    steps: int,
) -> Evidence:
    """Compare policies on held-out episodes; without a common discount, not by their values.

    Fitted Q-evaluation learns from all of the dataset: the episodes are held out from the policies.
    """
    starts, rows, episode = _looked_at(held_out)
    batch = held_out.transitions(scaling, rows)
    logged = np.asarray(batch.actions)
    actions = [modes(agent, held_out.observations[rows]) for agent in agents]
    support = support_of(
        (scaling.observations(learned_from.observations), scaling.to_unit(learned_from.actions)),
        (np.asarray(batch.observations), logged),
    )
    total = partial(np.bincount, episode, minlength=len(starts))
    first = held_out.observations[starts]
    at_starts = [modes(agent, first) for agent in agents]
    values = data_values = returns = None
    done = 0
    if discount is not None:
        fitted = Fitted(dataset, scaling, config, steps)
        logged_first = scaling.to_unit(held_out.actions[starts])
        seen = scaling.observations(first)
        carries, done = fitted.train(agents, seen, [logged_first, *at_starts])
        data_values, *each = fitted.values(carries, seen, [logged_first, *at_starts])
        values = np.array(each)
        returns = logged_returns(held_out, scaling, discount)[starts]
    following = held_out.next_observations[rows]
    own = [
        _of_own_critics(agent, held_out, rows, modes(agent, following), first, a, discount)
        for agent, a in zip(agents, at_starts, strict=True)
    ]
    rewards = scaling.rewards(dataset.rewards)
    horizon = 1.0 / max(1.0 - (discount or 0.0), 1e-6)
    return Evidence(
        values=values,
        data_values=data_values,
        returns=returns,
        action_errors=np.array([total(weights=((a - logged) ** 2).sum(1)) for a in actions]),
        outside=np.array([total(weights=support.outside(a)) for a in actions]),
        rows=total(),
        td_errors=np.array([td for td, _ in own]),
        own_values=np.array([value for _, value in own]),
        reach=(min(float(rewards.min()), 0.0) * horizon, max(float(rewards.max()), 0.0) * horizon),
        steps=done,
    )


class Fitted:
    """Fitted Q-evaluation of several policies.

    The critics learn Q - c, where c is the mean return in the data: with V = c + f, the TD target
    r + gamma V' becomes (r - c + gamma c) + gamma f'. Values that are far from 0 then take no longer.
    """

    def __init__(self, dataset: Dataset, scaling: Scaling, config: FQEConfig, steps: int):
        sizes = dataset.observation_size, dataset.action_size
        algorithm = make_fqe(config, *sizes)
        self._steps = max(PARTS, steps)
        # No more rows than will be drawn: a policy is asked for its action in each of them.
        count = min(dataset.size, (1 + BEFORE) * self._steps * config.batch_size)
        rows = np.sort(np.random.default_rng(0).permutation(dataset.size)[:count])
        returns = logged_returns(dataset, scaling, config.discount)
        self._mean = float(returns.mean())
        batch = dataset.transitions(scaling, rows, next_actions=True)
        kept = self._mean * (1.0 - config.discount * batch.discounts)
        self._batch = batch._replace(rewards=batch.rewards - kept)
        self._next_observations = dataset.next_observations[rows]
        self._chunk = compile_chunk(algorithm, config.batch_size)
        self._key = keys(0)[1]
        assert algorithm.values is not None
        self._ask = jax.jit(algorithm.values)
        # Returns are learned by the same program, as rewards that nothing follows.
        known = jnp.asarray(returns[rows] - self._mean, jnp.float32)
        first = batch._replace(rewards=known, discounts=jnp.zeros_like(known))
        begin = initial_carry(algorithm, config.batch_size, *sizes, seed=0)
        self._begun = BEFORE * self._steps
        self._carry = self._chunk(begin, first, 0, self._begun, self._key)

    def train(
        self, agents: Sequence[Agent], starts: np.ndarray, actions: Sequence[np.ndarray]
    ) -> tuple[list[Carry], int]:
        """The critics of the data's own actions and of each agent's, and steps until their ranking at
        the starts was stable."""
        batches = [self._batch]
        for agent in agents:
            theirs = jnp.asarray(modes(agent, self._next_observations))
            batches.append(self._batch._replace(next_actions=theirs))
        carries = [jax.tree.map(jnp.copy, self._carry) for _ in batches]
        before: list[tuple[int, ...]] = []
        done = 0
        with ThreadPoolExecutor(cores()) as threads:
            for part in range(1, PARTS + 1):
                stop = part * self._steps // PARTS

                def on(carry: Carry, batch: Batch, start: int = done, stop: int = stop) -> Carry:
                    steps = self._begun + start, self._begun + stop
                    return jax.block_until_ready(self._chunk(carry, batch, *steps, self._key))

                carries = list(threads.map(on, carries, batches))
                done = stop
                means = [v.mean() for v in self.values(carries, starts, actions)]
                before.append(tuple(np.argsort(means[1:])))
                if len(before) >= STABLE and len(set(before[-STABLE:])) == 1:
                    break
        return carries, done

    def values(
        self, carries: Sequence[Carry], observations: np.ndarray, actions: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """(member, row) of each, at its own actions."""
        return [self.value(c, observations, a) for c, a in zip(carries, actions, strict=True)]

    def value(self, carry: Carry, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """(member, row)."""
        return self._mean + np.asarray(self._ask(carry.state, observations, actions))


def modes(agent: Agent, observations: np.ndarray) -> np.ndarray:
    """The policy's actions in [-1, 1], for many rows at once: the same as `act`'s but for rounding."""
    scaled, act = agent.scaling.observations(observations), jax.jit(agent.algorithm.act)
    pieces = [scaled[i : i + PIECE] for i in range(0, len(scaled), PIECE)]
    return np.concatenate([np.asarray(act(agent.state, piece)) for piece in pieces])


def _looked_at(held_out: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where held-out episodes begin, rows of theirs, and the episode of each row."""
    ends = held_out.walk_ends
    kept = ends[:EPISODES]
    starts = np.concatenate([[0], kept[:-1] + 1])
    last = int(kept[-1]) + 1
    rows = np.unique(np.linspace(0, last - 1, min(ROWS, last)).astype(np.int64))
    return starts, rows, np.searchsorted(kept, rows)


def logged_returns(dataset: Dataset, scaling: Scaling, discount: float) -> np.ndarray:
    """The discounted return from every row on, in the learner's units.

    Where an episode was cut off, the mean reward is taken to go on: what followed is not known.
    """
    rewards = np.asarray(scaling.rewards(np.asarray(dataset.rewards)), np.float64)
    tail = rewards.mean() / max(1.0 - discount, 1e-6)
    followed = rewards + discount * tail * dataset.timeouts
    return returns_to_go(followed, dataset.episode_ends, discount)


def _of_own_critics(
    agent: Agent,
    held_out: Dataset,
    rows: np.ndarray,
    following: np.ndarray,
    starts: np.ndarray,
    first: np.ndarray,
    discount: float | None,
) -> tuple[float, float]:
    """The TD error of a policy's own critics, in deviations of their values, and their value of the
    starts."""
    values = agent.algorithm.values
    if values is None or discount is None:
        return float("nan"), float("nan")
    ask, batch = jax.jit(values), held_out.transitions(agent.scaling, rows)
    now = np.asarray(ask(agent.state, batch.observations, batch.actions)).mean(axis=0)
    then = np.asarray(ask(agent.state, batch.next_observations, following)).mean(axis=0)
    error = now - np.asarray(batch.rewards) - discount * np.asarray(batch.discounts) * then
    promised = ask(agent.state, agent.scaling.observations(starts), first)
    share = np.sqrt((error**2).mean()) / max(float(now.std()), 1e-9)
    return float(share), float(np.asarray(promised).mean())
