"""FQL: flow Q-learning (Park, Li and Levine 2025).

A flow learns what the data does, whatever the shape of its distribution; a policy of one step learns to
do the same, and better. For a batch (s, a, r, s'), x and z ~ N(0, 1) and t ~ U(0, 1):

    flow      minimise  E[(v(s, (1 - t) x + t a, t) - (a - x))^2]                  (flow matching)
              its action for noise z is z + integral of v over t from 0 to 1, by Euler's method
    critics   y = r + gamma * mean_i Q_target_i(s', mu(s', z))
              minimise  sum_i 1/2 E[(Q_i(s, a) - y)^2]
    policy    minimise  E[alpha * (mu(s, z) - flow(s, z))^2 - mean_i Q_i(s, mu(s, z))]

Squares are means over action dimensions. No gradient goes through the integral: the flow knows nothing
of values, and the policy nothing of time.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from chary.algos.critics import LONG_RUN, CriticConfig, valuing
from chary.config import Layers, Positive, Weight
from chary.networks.layers import MLP
from chary.networks.losses import normalised, regression_loss, td_targets
from chary.networks.optimisers import Trained, TrainedWithTarget, as_arrays
from chary.networks.targets import smallest
from chary.types import Algorithm, Batch, Metrics, PyTree

Aggregate = Literal["mean", "min"]


@dataclass(frozen=True)
class FQLConfig(CriticConfig):
    """Settings of FQL; the defaults are the authors'."""

    hidden: Layers = (512, 512, 512, 512)
    layer_norm: bool = True
    alpha: Weight = 10.0
    """Weight of the squared distance from the flow's actions. Tune it for each task."""
    flow_steps: Positive = 10
    """Euler steps of the flow from noise to an action."""
    aggregate: Aggregate = "mean"
    """How the two critics' next values are combined in the TD target."""
    normalise_q: bool = False
    """Divide values by their mean absolute value in the policy's loss, so that alpha does not
    depend on the rewards' scale."""


LONG: dict[str, Any] = {"steps": 500_000, **LONG_RUN}
# Not in the paper: its authors' advice for new tasks is to normalise values, and to search alpha from 1.
OTHER: dict[str, Any] = {"normalise_q": True, "alpha": 1.0, **LONG}
PRESETS: dict[str, dict[str, Any]] = {
    # alpha of the umaze and medium mazes (the authors' list of commands).
    "paper-antmaze": {"reward_scale": 1.0, "reward_shift": -1.0, **LONG},
    "paper-gym": OTHER,
    "paper-maze2d": OTHER,
    "paper-rlu": OTHER,
    # What `small` changes in MSG, for the same reasons. In a maze all values are large and differ little
    # between actions, so that the distance from the flow must weigh less for them to be heard.
    "small": {
        "normalise_observations": "moments",
        "normalise_q": True,
        "alpha": 0.03,
        "hidden": (64, 64, 64),
        "discount": 0.995,
        "tau": 0.05,
        "critic_learning_rate": 1e-3,
        "steps": 8_000,
    },
}


LARGE = {f"antmaze-large-{kind}": {"alpha": 3.0} for kind in ("play", "diverse")}
"""What they set in the large mazes."""


class Flow(eqx.Module):
    """A velocity field over actions, for every observation and time from 0 to 1."""

    network: MLP

    def __call__(
        self,
        observations: Float[Array, "batch observation"],
        points: Float[Array, "batch action"],
        times: Float[Array, " batch"],
    ) -> Float[Array, "batch action"]:
        return self.network(jnp.concatenate([observations, points, times[:, None]], axis=-1))

    def integrate(
        self,
        observations: Float[Array, "batch observation"],
        noise: Float[Array, "batch action"],
        steps: int,
    ) -> Float[Array, "batch action"]:
        """Follow the field from noise at time 0 to an action at time 1, by Euler's method."""

        def one_step(step: Array, points: Float[Array, "batch action"]) -> Array:
            times = jnp.full(len(points), step / steps)
            return points + self(observations, points, times) / steps

        return jnp.clip(jax.lax.fori_loop(0, steps, one_step, noise), -1.0, 1.0)


class OneStepPolicy(eqx.Module):
    """A network from an observation and noise to an action."""

    network: MLP

    def __call__(
        self,
        observations: Float[Array, "batch observation"],
        noise: Float[Array, "batch action"],
    ) -> Float[Array, "batch action"]:
        return self.network(jnp.concatenate([observations, noise], axis=-1))


def settled_noise(
    observations: Float[Array, "batch observation"], size: int
) -> Float[Array, "batch {size}"]:
    """Normal noise that is decided by the bits of an observation.

    Without a key the same observation must get the same action. No noise at all would give one between
    the actions that the policy chooses from, which may be none of them.
    """
    bits = jax.lax.bitcast_convert_type(observations, jnp.uint32)
    places = (
        2 * jnp.arange(bits.shape[-1], dtype=jnp.uint32) + 1
    )  # the same numbers elsewhere differ
    keys = jax.vmap(jax.random.key)((bits * places).sum(axis=-1))
    return jax.vmap(lambda key: jax.random.normal(key, (size,)))(keys)


class Hyper(NamedTuple):
    alpha: Float[Array, ""]
    discount: Float[Array, ""]
    critic_learning_rate: Float[Array, ""]
    policy_learning_rate: Float[Array, ""]
    tau: Float[Array, ""]


class FQLState(NamedTuple):
    flow: Trained[Flow]
    policy: Trained[OneStepPolicy]
    critics: TrainedWithTarget[PyTree]
    hyper: Hyper


class Noise(NamedTuple):
    """All that is random in one step."""

    starts: Float[Array, "batch action"]
    """x, where the flow begins."""
    times: Float[Array, " batch"]
    policy: Float[Array, "batch action"]
    """z at s, for the policy and the flow that it is held to."""
    after: Float[Array, "batch action"]
    """z at s', for the TD target."""


def draw_noise(shape: tuple[int, ...], *, key: PRNGKeyArray) -> Noise:
    normal_key, time_key = jax.random.split(key)
    starts, policy, after = jax.random.normal(normal_key, (3, *shape))
    return Noise(starts, jax.random.uniform(time_key, shape[:1]), policy, after)


def flow_loss(flow: Flow, batch: Batch, noise: Noise) -> Float[Array, ""]:
    """The velocity of straight lines from noise to logged actions."""
    times = noise.times[:, None]
    points = (1.0 - times) * noise.starts + times * batch.actions
    velocity = batch.actions - noise.starts
    return ((flow(batch.observations, points, noise.times) - velocity) ** 2).mean()


def make_fql(config: FQLConfig, observation_size: int, action_size: int) -> Algorithm[FQLState]:
    """FQL for vectors of the given sizes."""
    ensemble = config.critics(observation_size, action_size)
    inputs = observation_size + action_size

    def init(key: PRNGKeyArray) -> FQLState:
        flow_key, policy_key, critic_key = jax.random.split(key, 3)
        flow = Flow(MLP.init(inputs + 1, config.hidden, action_size, key=flow_key))
        policy = OneStepPolicy(MLP.init(inputs, config.hidden, action_size, key=policy_key))
        return FQLState(
            flow=Trained.of(flow),
            policy=Trained.of(policy),
            critics=TrainedWithTarget.of(ensemble.init(critic_key)),
            hyper=as_arrays(Hyper, config),
        )

    def critic_loss(
        critics: PyTree, state: FQLState, batch: Batch, noise: Noise
    ) -> tuple[Float[Array, ""], Metrics]:
        """Both critics towards what they say, together, of the policy's next action."""
        next_actions = state.policy.params(batch.next_observations, noise.after)
        next_values = ensemble.values(
            state.critics.target, batch.next_observations, jnp.clip(next_actions, -1.0, 1.0)
        )
        least = config.aggregate == "min"
        together = smallest(next_values, axis=0) if least else next_values.mean(axis=0)
        y = td_targets(batch, state.hyper.discount, together)
        heads = ensemble.heads(critics, batch.observations, batch.actions)
        return regression_loss(heads, y)

    def policy_loss(
        policy: OneStepPolicy, state: FQLState, batch: Batch, noise: Noise
    ) -> tuple[Float[Array, ""], Metrics]:
        """Do in one step what the flow does in many, and maximise the critics' mean."""
        integrated = state.flow.params.integrate(
            batch.observations, noise.policy, config.flow_steps
        )
        actions = policy(batch.observations, noise.policy)
        distance = ((actions - integrated) ** 2).mean()
        values = ensemble.values(
            state.critics.online, batch.observations, jnp.clip(actions, -1.0, 1.0)
        ).mean(axis=0)
        objective = normalised(values) if config.normalise_q else values
        loss = state.hyper.alpha * distance - objective.mean()
        metrics = {"policy/loss": loss, "policy/q": values.mean(), "policy/distance": distance}
        return loss, metrics

    def update(state: FQLState, batch: Batch, key: PRNGKeyArray) -> tuple[FQLState, Metrics]:
        hyper = state.hyper
        # The barrier asks the compiler not to draw the same noise again in every use of it.
        noise = jax.lax.optimization_barrier(draw_noise(batch.actions.shape, key=key))
        critic_gradient, critic_metrics = jax.grad(critic_loss, has_aux=True)(
            state.critics.online, state, batch, noise
        )
        flow_error, flow_gradient = jax.value_and_grad(flow_loss)(state.flow.params, batch, noise)
        policy_gradient, policy_metrics = jax.grad(policy_loss, has_aux=True)(
            state.policy.params, state, batch, noise
        )
        return FQLState(
            flow=state.flow.step(flow_gradient, hyper.policy_learning_rate),
            policy=state.policy.step(policy_gradient, hyper.policy_learning_rate),
            critics=state.critics.step(critic_gradient, hyper.critic_learning_rate, hyper.tau),
            hyper=hyper,
        ), {"flow/matching": flow_error, **critic_metrics, **policy_metrics}

    def act(
        state: FQLState,
        observations: Float[Array, "batch observation"],
        *,
        key: PRNGKeyArray | None = None,
        noise: Float[Array, "batch action"] | None = None,
    ) -> Float[Array, "batch action"]:
        if key is not None:
            noise = jax.random.normal(key, (len(observations), action_size))
        elif noise is None:
            noise = settled(observations)
        return jnp.clip(state.policy.params(observations, noise), -1.0, 1.0)

    def settled(observations: Float[Array, "batch observation"]) -> Float[Array, "batch action"]:
        return settled_noise(observations, action_size)

    return Algorithm(
        init,
        update,
        act,
        valuing(ensemble.values),
        beta=lambda _: jnp.float32(0.0),
        noise=settled,
    )
