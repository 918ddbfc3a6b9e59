"""What an exported agent computes: the same as `Agent.decide`, as one function of arrays."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chary.deploy.graph import Shape
from chary.evaluation.agent import Agent
from chary.evaluation.inputs import SLACK
from chary.evaluation.limits import NEIGHBOURS, Limits, Thresholds
from chary.networks.targets import mean_and_std

Outputs = dict[str, Any]


def inputs_of(agent: Agent, *, judge: bool) -> dict[str, Shape]:
    """Names and shapes of what the function takes; `judge` for one that is given actions."""
    observations, actions = len(agent.scaling.observation_mean), len(agent.scaling.action_low)
    inputs: dict[str, Shape] = {"observations": (None, observations)}
    if judge:
        inputs["actions"] = (None, actions)
    if agent.algorithm.noise is not None:
        inputs["noise"] = (None, actions)
    return inputs


def decision_of(agent: Agent, limits: Limits, thresholds: Thresholds) -> Callable[..., Outputs]:
    """The function; observations and actions are in the environment's units. Actions that it is given
    are judged instead of the policy's.

    What is not a finite number, or an action out of its bounds, gets an infinite deviation and a flag.
    """
    algorithm, state, scaling = agent.algorithm, agent.state, agent.scaling
    low, high = scaling.action_low, scaling.action_high
    states = limits.states
    nearest = min(NEIGHBOURS, len(states))

    def distance(observations: Any) -> Any:
        rows = (observations - limits.centre) / limits.scale
        size = (rows**2).sum(axis=1)
        squared = size[:, None] + (states**2).sum(axis=1) - 2.0 * rows @ states.T
        near = -jax.lax.top_k(-squared, nearest)[0]
        found = jnp.sqrt(jnp.maximum(near, 0.0)).mean(axis=1)
        # What is too large to be squared is far from everything; the product may make it a NaN.
        return jnp.where(jnp.isfinite(size), found, jnp.inf)

    def decide(observations: Any, actions: Any = None, noise: Any = None) -> Outputs:
        sound = jnp.isfinite(observations).all(axis=1)
        observations = jnp.where(sound[:, None], observations, 0.0)
        rows = scaling.observations(observations)
        given = {} if noise is None else {"noise": noise}
        unit = algorithm.act(state, rows, **given)
        action = scaling.from_unit(unit)
        far = jnp.where(sound, distance(observations), jnp.inf)
        outputs = {
            "action": jnp.where(sound[:, None], action, jnp.nan),
            "distance": far,
            "far": far > thresholds.distance,
        }
        outside = outputs["far"]
        if algorithm.values is not None and algorithm.beta is not None:
            known, asked = sound, unit
            if actions is not None:
                slack = SLACK * (high - low)
                allowed = (actions >= low - slack) & (actions <= high + slack)
                known &= allowed.all(axis=1)  # NaN is not allowed either
                asked = jnp.clip(2.0 * (actions - low) / (high - low) - 1.0, -1.0, 1.0)
                asked = jnp.where(known[:, None], asked, unit)
            members = algorithm.values(state, rows, asked)
            mean, std = mean_and_std(members)
            known &= jnp.isfinite(members).all(axis=0) & jnp.isfinite(std)
            std = jnp.where(known, std, jnp.inf)
            outputs |= {
                "members": jnp.where(known, members, jnp.nan),
                "mean": jnp.where(known, mean, jnp.nan),
                "std": std,
                "lcb": jnp.where(known, mean + algorithm.beta(state) * std, -jnp.inf),
                "doubted": std > thresholds.spread,
            }
            outside |= outputs["doubted"]
        return outputs | {"outside_data": outside | ~sound}

    return decide


def settled_noise(agent: Agent, observations: np.ndarray) -> dict[str, np.ndarray]:
    """The noise that `Agent.decide` acts by, for policies that turn noise into actions."""
    if agent.algorithm.noise is None:
        return {}
    rows = jnp.asarray(agent.scaling.observations(np.nan_to_num(observations)))
    return {"noise": np.asarray(agent.algorithm.noise(rows))}
