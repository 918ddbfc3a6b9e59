"""Whether the spread of the infinitely wide network has structure, for several sigma_w and sigma_b.

The paper gives neither. Everything here is a closed form at the experiment's discount, data and ridge.
"""

from typing import Any

import numpy as np

from chary.errors import CharyError
from chary.theory import kernels, mdp
from chary.theory.kernels import Evaluation, Kernels
from chary.theory.mdp import Chain
from chary.theory.width_config import BIAS_STDS, OTHERS, WidthConfig

Row = dict[str, Any]


def constants() -> list[Kernels]:
    """Those that are compared."""
    pairs = [*((1.0, bias_std) for bias_std in BIAS_STDS), *OTHERS]
    return [Kernels(*pair) for pair in pairs]


def constants_row(config: WidthConfig, infinite: Kernels) -> Row:
    """The spread left over right of the gap in both closed forms, none where they diverge."""
    data, points = config.data(), mdp.policy_inputs()
    theta = infinite.tangents(data, points)
    radius = kernels.spectral_radius(theta, discount=config.discount, ridge=config.ridge)
    row: Row = {**infinite._asdict(), "radius": radius}
    row |= _shape("", _descent(config, theta), infinite, data)
    complete = kernels.solve(
        theta, discount=config.discount, ridge=config.ridge, iterations=config.iterations
    )
    return row | _shape("ridge_", complete if radius < 1.0 else None, infinite, data)


def _descent(config: WidthConfig, theta: kernels.Tangents) -> Evaluation | None:
    """As many gradient steps; none where the learning rate is too large for these constants."""
    try:
        return kernels.descend(
            theta, discount=config.discount, learning_rate=config.learning_rate,
            steps=config.steps, iterations=config.iterations,
        )  # fmt: skip
    except CharyError:
        return None


def _shape(prefix: str, form: Evaluation | None, infinite: Kernels, data: Chain) -> Row:
    """Left and right of the gap, their ratio, and how far the mean is from the true value."""
    keys = ("left", "right", "ratio", "value_error")
    if form is None:
        return {prefix + key: None for key in keys}
    mean, std = form.moments(infinite, data, mdp.policy_inputs())
    error = float(np.sqrt(((mean - mdp.true_values(form.discount)) ** 2).mean()))
    found = mdp.structure(std) | {"value_error": error}
    return {prefix + key: found[key] for key in keys}
