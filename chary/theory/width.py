"""Networks of growing width against the infinitely wide one (Appendix F.2 of Ghasemipour et al. 2022).

Three kinds of finite networks: linearised ones, whose end is a closed form; and, trained step by step,
networks in NTK and in maximal-update parameterisation. Each member is compared with what the infinitely
wide network makes of the member's own initial function, with the same data and steps.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from chary.config import to_json
from chary.data.collect import run_jobs
from chary.host.terminal import progress_bar
from chary.theory import erf_networks, kernels, linearised, mdp, resumable
from chary.theory.collapse import constants, constants_row
from chary.theory.erf_networks import PARAMETERISATIONS, Network
from chary.theory.kernels import Evaluation
from chary.theory.mdp import Chain
from chary.theory.width_config import WidthConfig

BOOTSTRAPS = 2000
STEPWISE = 5
"""Iterations that are also computed step by step, to check the closed form."""


class Curve(NamedTuple):
    """What members believe at (s, pi(s)) along the grid."""

    mean: Float[np.ndarray, " grid"]
    std: Float[np.ndarray, " grid"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "member grid"]) -> "Curve":
        return cls(values.mean(axis=0), values.std(axis=0))


class Ensemble(NamedTuple):
    """Finite networks of one kind and width, after fitted Q evaluation."""

    network: str
    """linearised, ntk or maximal-update."""
    width: int
    values: Float[np.ndarray, "member grid"]
    predicted: Float[np.ndarray, "member grid"]
    """What the infinitely wide network would have made of each member's own beginning."""


class WidthResult(NamedTuple):
    """Finite ensembles and the infinitely wide ones that they are compared with."""

    ensembles: list[Ensemble]
    infinite: Curve
    """Infinite width, as many gradient steps."""
    complete: Curve
    """Infinite width, complete fits with the ridge (Theorem 3.1)."""
    constants: list[dict[str, Any]]
    """The closed forms for other sigma_w and sigma_b."""
    closed_form_error: float
    """Largest difference between the eigendecomposed descent and the same, step by step."""


def run_width(config: WidthConfig, folder: Path) -> WidthResult:
    """Closed forms, linearised networks, and networks that are trained in both parameterisations."""
    data, points, infinite = config.data(), mdp.policy_inputs(), config.kernels()
    theta = infinite.tangents(data, points)
    descent = descend(config, theta, config.iterations)
    complete = kernels.solve(
        theta, discount=config.discount, ridge=config.ridge, iterations=config.iterations
    )
    jobs: list[Callable[[], Any]] = [
        partial(linearised.evaluate, config, network)
        for width in config.widths
        for network in _members(config, width)
    ]
    jobs += [partial(constants_row, config, pair) for pair in constants()]
    jobs.append(partial(stepwise_error, config))
    # Matrices of this size gain nothing from threads of their own: a process a core, one thread each.
    *found, error = run_jobs(_call, jobs, title="closed forms")
    starts = [place * config.members for place in range(len(config.widths) + 1)]
    ensembles = [
        _linearised(width, found[start : start + config.members], data, descent)
        for width, start in zip(config.widths, starts, strict=False)
    ]
    ensembles += [
        _trained(config, parameterisation, width, data, descent, folder)
        for parameterisation in PARAMETERISATIONS
        for width in config.trained
    ]
    return WidthResult(
        ensembles,
        Curve(*descent.moments(infinite, data, points)),
        Curve(*complete.moments(infinite, data, points)),
        found[starts[-1] :],
        error,
    )


def _call(job: Callable[[], Any]) -> Any:
    return job()


def descend(config: WidthConfig, theta: kernels.Tangents, iterations: int) -> Evaluation:
    """Gradient descent with the settings' rate and steps."""
    return kernels.descend(
        theta, discount=config.discount, learning_rate=config.learning_rate, steps=config.steps,
        iterations=iterations,
    )  # fmt: skip


def _members(config: WidthConfig, width: int) -> list[Network]:
    """The ensemble's networks one by one, as NumPy's arrays."""
    networks = erf_networks.init_networks(config, "ntk", width, config.members)
    return [
        jax.tree.map(lambda leaf, place=place: np.asarray(leaf[place]), networks)
        for place in range(config.members)
    ]


def _linearised(
    width: int, members: list[linearised.Member], data: Chain, descent: Evaluation
) -> Ensemble:
    """Linearised members, and what infinite width makes of their beginnings."""
    values = np.stack([member.values for member in members])
    predicted = np.stack([descent.apply(data, *member.initial) for member in members])
    return Ensemble("linearised", width, values, predicted)


def _trained(
    config: WidthConfig, parameterisation: str, width: int, data: Chain, descent: Evaluation,
    folder: Path,
) -> Ensemble:  # fmt: skip
    """Fitted Q evaluation by gradient descent, resumed where it was interrupted."""
    begin = erf_networks.init_networks(config, parameterisation, width, config.members_at(width))
    # How often it is saved, and what else is compared, does not change what is computed.
    others = ("widths", "trained", "few", "few_from", "ridge", "checkpoint_minutes")
    settings = {k: v for k, v in to_json(config).items() if k not in others}
    settings |= {"parameterisation": parameterisation, "width": width}
    settings["members"] = config.members_at(width)
    with progress_bar(f"{parameterisation}, width {width}", total=config.iterations) as advance:
        end = resumable.iterate(
            folder / f"width-{parameterisation}-{width}", settings, begin,
            erf_networks.make_iteration(config, parameterisation, data), config.iterations,
            minutes=config.checkpoint_minutes, advance=advance,
        )  # fmt: skip

    def at(networks: Network, x: np.ndarray) -> np.ndarray:
        return erf_networks.values(networks, x, config, parameterisation)

    points = mdp.policy_inputs()
    values = mdp.finite(at(end, points), f"{parameterisation}, width {width}")
    beginning = at(begin, points), at(begin, data.x), at(begin, data.next_x)
    return Ensemble(parameterisation, width, values, descent.apply(data, *beginning))


def stepwise_error(config: WidthConfig) -> float:
    """The first iterations of gradient descent on the infinitely wide network, one step after the other,
    against their closed form: for the zero function as beginning, at the grid."""
    data, iterations = config.data(), min(STEPWISE, config.iterations)
    theta = config.kernels().tangents(data, mdp.policy_inputs())
    alpha = np.zeros(len(data.x))
    for _ in range(iterations):
        targets = data.rewards + config.discount * theta.at_next_x @ alpha
        for _ in range(config.steps):
            alpha = alpha + config.learning_rate / len(data.x) * (targets - theta.at_x @ alpha)
    closed = descend(config, theta, iterations).gain @ data.rewards
    return float(np.abs(theta.at_points @ alpha - closed).max())


# ---- what is reported ------------------------------------------------------------------------------


def bootstrap(
    statistic: Callable[[Float[np.ndarray, "member grid"]], float],
    members: Float[np.ndarray, "member grid"],
) -> tuple[float, float, float]:
    """A statistic of an ensemble and its 95% percentile interval over resampled members.

    Resamples in which it is not defined are left out: few members may all be the same one.
    """
    rng = np.random.default_rng(0)
    draws = rng.integers(len(members), size=(BOOTSTRAPS, len(members)))
    low, high = np.nanquantile([statistic(members[draw]) for draw in draws], (0.025, 0.975))
    return statistic(members), float(low), float(high)


def rows(result: WidthResult) -> list[dict[str, Any]]:
    """A row a network: the form of its spread, and its distance from the infinitely wide one.

    `error` is that of each member against what the infinitely wide network makes of the same initial
    function, root mean square over grid and members; it is free of the chance in who the members are.
    `std_error` compares the ensembles' spreads. Both are in the unit of Q.
    """
    table = [_row(ensemble, result.infinite) for ensemble in result.ensembles]
    for name, curve in (("infinite", result.infinite), ("infinite, ridge", result.complete)):
        table.append({"network": name, **mdp.structure(curve.std)})
    return table


def _row(ensemble: Ensemble, infinite: Curve) -> dict[str, Any]:
    values = ensemble.values
    error, *error_interval = bootstrap(
        lambda some: float(np.sqrt((some**2).mean())), values - ensemble.predicted
    )
    std_error, *std_error_interval = bootstrap(
        lambda some: float(np.sqrt(((some.std(axis=0) - infinite.std) ** 2).mean())), values
    )
    _, *ratio_interval = bootstrap(
        lambda some: mdp.structure(some.std(axis=0))["ratio"] or np.nan, values
    )
    return {
        "network": ensemble.network,
        "width": ensemble.width,
        "members": len(values),
        "error": error,
        "error_interval": error_interval,
        "std_error": std_error,
        "std_error_interval": std_error_interval,
        **mdp.structure(values.std(axis=0)),
        "ratio_interval": ratio_interval,
    }
