"""Networks of growing width against the infinitely wide one (Appendix F.2 of Ghasemipour et al. 2022).

Two parameterisations of one hidden layer of erf units, on the chain: in NTK parameterisation features
freeze as the width grows, in the maximal-update one (Yang and Hu 2021) they are learned at every width.
Both have the same tangent kernel when they begin.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from chary.progress import progress_bar
from chary.settings import to_json
from chary.theory import kernels, mdp, resumable
from chary.theory.mdp import Chain
from chary.theory.width_config import WidthConfig

PARAMETERISATIONS = ("ntk", "maximal-update")
BOOTSTRAPS = 2000


# ---- networks --------------------------------------------------------------------------------------


class Network(NamedTuple):
    """One hidden layer of erf units."""

    weight: Float[Array, "2 hidden"]
    bias: Float[Array, " hidden"]
    output: Float[Array, " hidden"]
    shift: Float[Array, ""]


def init_network(width: int, parameterisation: str, *, key: PRNGKeyArray) -> Network:
    """Normal parameters: of variance 1 in NTK parameterisation, 1 / width in the maximal-update one."""
    std = 1.0 if parameterisation == "ntk" else width**-0.5
    keys = jax.random.split(key, 4)
    shapes = ((2, width), (width,), (width,), ())
    return Network(*(std * jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)))


def predict(
    network: Network, x: Float[Array, "batch 2"], config: WidthConfig, parameterisation: str
) -> Float[Array, " batch"]:
    """Q(s, a) of each row. What initialisation makes small in the maximal-update parameterisation the
    first layer makes up for, and the last does not (the abc of Table 1 in Yang and Hu 2021)."""
    width = len(network.output)
    scale = 1.0 if parameterisation == "ntk" else width**0.5
    inputs = x @ network.weight * (config.weight_std / x.shape[1] ** 0.5)
    hidden = jax.lax.erf(scale * (inputs + config.bias_std * network.bias))
    return (
        hidden @ network.output * (config.weight_std / width**0.5) + config.bias_std * network.shift
    )


# ---- fitted Q evaluation ---------------------------------------------------------------------------


def init_networks(config: WidthConfig, parameterisation: str, width: int) -> Network:
    """The ensemble that the seed gives."""
    key = jax.random.fold_in(jax.random.key(config.seed), width)
    keys = jax.random.split(key, config.members_at(width))
    return jax.jit(jax.vmap(lambda k: init_network(width, parameterisation, key=k)))(keys)


def make_iteration(
    config: WidthConfig, parameterisation: str, data: Chain
) -> Callable[[Network], Network]:
    """Each network computes its own targets and is fitted to them: one compiled program."""
    x, rewards, next_x = (jnp.asarray(column, jnp.float32) for column in data)

    def fit(network: Network) -> Network:
        targets = rewards + config.discount * predict(network, next_x, config, parameterisation)

        def loss(network: Network) -> Float[Array, ""]:
            return 0.5 * ((predict(network, x, config, parameterisation) - targets) ** 2).mean()

        def step(_: Array, network: Network) -> Network:
            gradient = jax.grad(loss)(network)
            return jax.tree.map(lambda p, g: p - config.learning_rate * g, network, gradient)

        return jax.lax.fori_loop(0, config.steps, step, network)

    # One network after the other: its activations then stay in the processor's cache.
    return jax.jit(lambda networks: jax.lax.map(fit, networks))


# ---- the experiment --------------------------------------------------------------------------------


class Curve(NamedTuple):
    """What members believe at (s, pi(s)) along the grid."""

    mean: Float[np.ndarray, " grid"]
    std: Float[np.ndarray, " grid"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "member grid"]) -> "Curve":
        return cls(values.mean(axis=0), values.std(axis=0))


class WidthResult(NamedTuple):
    """Members' values by parameterisation and width, and the infinitely wide network's."""

    values: dict[tuple[str, int], Float[np.ndarray, "member grid"]]
    predicted: dict[tuple[str, int], Float[np.ndarray, "member grid"]]
    """What the infinitely wide network would have made of each member's own beginning."""
    finite_time: Curve
    """Infinite width, the same number of gradient steps."""
    complete: Curve
    """Infinite width, complete fits with the ridge (Theorem 3.1)."""
    radius: float
    """Spectral radius of gamma C with the ridge."""
    closed_form_error: float
    """Largest difference between the eigendecomposed descent and the same, step by step."""


def run_width(config: WidthConfig, folder: Path) -> WidthResult:
    """Every width in both parameterisations, and the closed forms."""
    data = mdp.collect(config.episodes, config.length, config.seed)
    points = mdp.policy_inputs()
    infinite = config.kernels()
    descent = kernels.descend(
        infinite, data, points, discount=config.discount, learning_rate=config.learning_rate,
        steps=config.steps, iterations=config.iterations,
    )  # fmt: skip
    complete = kernels.solve(
        infinite, data, points, discount=config.discount, ridge=config.ridge,
        iterations=config.iterations,
    )  # fmt: skip
    values: dict[tuple[str, int], np.ndarray] = {}
    predicted: dict[tuple[str, int], np.ndarray] = {}
    for parameterisation in PARAMETERISATIONS:
        for width in config.widths:
            begin = init_networks(config, parameterisation, width)
            end = _train(config, parameterisation, width, data, begin, folder)
            at = _evaluator(config, parameterisation)
            case = parameterisation, width
            values[case] = mdp.finite(at(end, points), f"{parameterisation}, width {width}")
            beginning = at(begin, points), at(begin, data.x), at(begin, data.next_x)
            predicted[case] = descent.apply(data, *beginning)
    return WidthResult(
        values, predicted,
        Curve(*descent.moments(infinite, data, points)),
        Curve(*complete.moments(infinite, data, points)),
        kernels.spectral_radius(infinite, data, discount=config.discount, ridge=config.ridge),
        _step_by_step_error(config, data, descent),
    )  # fmt: skip


def _train(
    config: WidthConfig,
    parameterisation: str,
    width: int,
    data: Chain,
    begin: Network,
    folder: Path,
) -> Network:
    """Fitted Q evaluation, gone on with where it was interrupted."""
    # How often it is saved, and what else is compared, does not change what is computed.
    others = ("widths", "few", "members", "ridge", "checkpoint_minutes")
    settings = {k: v for k, v in to_json(config).items() if k not in others}
    settings |= {"parameterisation": parameterisation, "width": width}
    settings["members"] = config.members_at(width)
    with progress_bar(f"{parameterisation}, width {width}", total=config.iterations) as advance:
        return resumable.iterate(
            folder / f"width-{parameterisation}-{width}", settings, begin,
            make_iteration(config, parameterisation, data), config.iterations,
            minutes=config.checkpoint_minutes, advance=advance,
        )  # fmt: skip


def _evaluator(
    config: WidthConfig, parameterisation: str
) -> Callable[[Network, np.ndarray], np.ndarray]:
    @jax.jit
    def at(networks: Network, x: Float[Array, "batch 2"]) -> Float[Array, "member batch"]:
        return jax.lax.map(lambda network: predict(network, x, config, parameterisation), networks)

    return lambda networks, x: np.asarray(at(networks, jnp.asarray(x, jnp.float32)), np.float64)


def _step_by_step_error(config: WidthConfig, data: Chain, descent: kernels.Evaluation) -> float:
    """Gradient descent on the infinitely wide network, one step after the other, against its closed
    form: for the zero function as beginning, at the grid."""
    infinite, points = config.kernels(), mdp.policy_inputs()
    theta, next_theta = infinite.ntk(data.x, data.x), infinite.ntk(data.next_x, data.x)
    alpha = np.zeros(len(data.x))
    for _ in range(config.iterations):
        targets = data.rewards + config.discount * next_theta @ alpha
        for _ in range(config.steps):
            alpha = alpha + config.learning_rate / len(data.x) * (targets - theta @ alpha)
    slow = infinite.ntk(points, data.x) @ alpha
    return float(np.abs(slow - descent.gain @ data.rewards).max())


# ---- what is reported ------------------------------------------------------------------------------


def bootstrap(
    statistic: Callable[[Float[np.ndarray, "member grid"]], float],
    members: Float[np.ndarray, "member grid"],
) -> tuple[float, float, float]:
    """A statistic of an ensemble and its 95% percentile interval over resampled members."""
    rng = np.random.default_rng(0)
    draws = rng.integers(len(members), size=(BOOTSTRAPS, len(members)))
    low, high = np.quantile([statistic(members[draw]) for draw in draws], (0.025, 0.975))
    return statistic(members), float(low), float(high)


def rows(result: WidthResult) -> list[dict[str, Any]]:
    """A row a network: the form of its spread, and its distance from the infinitely wide one.

    `error` is that of each member against what the infinitely wide network makes of the same initial
    function, root mean square over grid and members and relative to the spread of the latter; it is
    free of the chance in who the members are. `std_error` compares the ensembles' spreads.
    """
    infinite = result.finite_time
    size = float(np.sqrt((infinite.std**2).mean()))
    table: list[dict[str, Any]] = []
    for (parameterisation, width), values in result.values.items():
        difference = values - result.predicted[parameterisation, width]
        error, low, high = bootstrap(
            lambda some: float(np.sqrt((some**2).mean())) / size, difference
        )
        std_error = bootstrap(
            lambda some: float(np.sqrt(((some.std(axis=0) - infinite.std) ** 2).mean())) / size,
            values,
        )
        ratio = bootstrap(lambda some: mdp.structure(some.std(axis=0))["ratio"] or np.nan, values)
        table.append(
            {
                "network": parameterisation,
                "width": width,
                "members": len(values),
                "error": error,
                "error_interval": [low, high],
                "std_error": std_error[0],
                "std_error_interval": list(std_error[1:]),
                **mdp.structure(values.std(axis=0)),
                "ratio_interval": list(ratio[1:]),
            }
        )
    for name, curve in (("infinite", infinite), ("infinite, ridge", result.complete)):
        table.append({"network": name, **mdp.structure(curve.std)})
    return table
