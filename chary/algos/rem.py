"""REM: random ensemble mixture (Agarwal, Schuurmans and Norouzi 2020), with a policy for actions.

In every step the N Q-functions are one: a convex combination of them, drawn anew, which must agree with
itself over time:

    w_i = u_i / sum_j u_j,  u_i ~ U(0, 1)
    critics   y = r + gamma * (sum_i w_i Q_target_i(s', a') - temperature * log pi(a' | s'))
              minimise  1/2 E[(sum_i w_i Q_i(s, a) - y)^2]
    policy    maximise  E[mean_i Q_i(s, a) - temperature * log pi(a | s)],  a ~ pi(s)

with a' ~ pi(s'). The paper has few actions, and takes the one with the largest mean; here a policy
maximises the mean, by SAC (`chary/algos/sac.py`).
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.critics import LONG_RUN, EntropyConfig
from chary.algos.sac import NextValues, SACState, by_gradient, make_sac
from chary.config import Layers, Positive
from chary.networks.losses import critic_metrics, td_loss, td_targets
from chary.networks.optimisers import as_arrays
from chary.networks.targets import mean
from chary.types import Algorithm, Batch, Metrics, PyTree

Kind = Literal["multihead", "deep"]


@dataclass(frozen=True)
class REMConfig(EntropyConfig):
    """Settings of REM: the authors' ensemble, and SAC's rates of learning."""

    hidden: Layers = (256, 256, 256)
    members: Positive = 200
    """Number N of Q-functions."""
    ensemble: Kind = "multihead"
    """multihead: one trunk with N outputs, as in the paper. deep: N separate networks."""


# The paper's runs are of games; the lengths here are those of the other methods built on SAC.
LONG: dict[str, Any] = {"steps": 3_000_000, **LONG_RUN}
PRESETS: dict[str, dict[str, Any]] = {
    "paper-antmaze": {"reward_scale": 4.0, "reward_shift": -0.5, **LONG},
    "paper-gym": LONG,
    "paper-maze2d": LONG,
    "paper-rlu": LONG,
    # What `small` changes in MSG, for the same reasons.
    "small": {
        "members": 64,
        "hidden": (64, 64, 64),
        "discount": 0.995,
        "tau": 0.05,
        "critic_learning_rate": 1e-3,
        "policy_learning_rate": 1e-4,
        "temperature": 0.1,
        "steps": 8_000,
    },
}


class Hyper(NamedTuple):
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    temperature_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]
    target_entropy: Float[Array, ""]


def mixture(members: int, *, key: PRNGKeyArray) -> Float[Array, " member"]:
    """Random weights that add up to one."""
    draws = jax.random.uniform(key, (members,), minval=1e-6)
    return draws / draws.sum()


def make_rem(config: REMConfig, observation_size: int, action_size: int) -> Algorithm[SACState]:
    """REM for vectors of the given sizes."""
    ensemble = config.critics(
        observation_size, action_size, members=config.members, ensemble=config.ensemble
    )

    def critic_loss(
        critics: PyTree, state: SACState, batch: Batch, after: NextValues, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Metrics]:
        """The mixture towards the same mixture's next value."""
        weights = mixture(config.members, key=key)
        y = td_targets(batch, state.hyper.discount, weights @ after.members + after.bonus)
        values = ensemble.values(critics, batch.observations, batch.actions)
        td = td_loss((weights @ values)[None, None], y)
        return td.sum(), critic_metrics(td, values[:, None], y)

    return make_sac(
        config,
        observation_size,
        action_size,
        ensemble=ensemble,
        members=config.members,
        hyper=lambda target: as_arrays(Hyper, config, target_entropy=target),
        objective=mean,
        learn_critics=by_gradient(ensemble, critic_loss),
    )
