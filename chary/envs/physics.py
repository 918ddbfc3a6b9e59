"""D4RL's physics on current MuJoCo.

D4RL's data was made with MuJoCo 2.0. Two things that changed since then matter, and both can be undone:

- Since 2.1.1, a capsule has the mass and inertia of a capsule. Before, it was weighed as a cylinder that
  reached half a radius beyond the capsule's straight part at both ends.
- Since 3.5, the contact margins of two geoms that touch are added. Before, the larger one counted.

With both undone, real data is replayed to about the last digit of its single precision.
"""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from chary.errors import CharyError


def import_mujoco() -> Any:
    """MuJoCo, imported late; its extension module has no types to check against."""
    return import_simulator("mujoco")


def import_simulator(name: str) -> Any:
    """A module of the extra `sim`, which someone with a table of their own does without."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CharyError(
            f"this task runs in a simulator that is not installed ({name}). Install it with "
            "pip install 'chary[sim]', or learn from a file of your own, which needs none."
        ) from error


def use_old_physics(model: Any, robot: Path) -> None:
    """Make a compiled model behave as in MuJoCo 2.0; `robot` is the file its moving bodies are from."""
    mujoco = import_mujoco()
    # All geoms of a model have the same margin, so the sum of two halves is what the larger was.
    model.geom_margin[:] /= 2
    use_old_inertias(model, mujoco.MjData(model), mujoco.MjSpec.from_file(str(robot)))


def use_old_inertias(model: Any, data: Any, spec: Any) -> None:
    """Weigh a compiled model's bodies as MuJoCo 2.0 did; `spec`, which is used up, describes them."""
    weighed = _capsules_as_cylinders(spec)
    for array in ("body_mass", "body_inertia", "body_ipos", "body_iquat"):
        getattr(model, array)[:] = getattr(weighed, array)
    import_mujoco().mj_setConst(model, data)


@contextmanager
def quiet_mujoco() -> Iterator[None]:
    """No warning, and no MUJOCO_LOG.TXT in the working folder, for what Gymnasium's files still use."""
    mujoco = import_mujoco()
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        mujoco.set_mju_user_warning(before)


def _capsules_as_cylinders(spec: Any) -> Any:
    """The model with every capsule replaced by the cylinder it used to be weighed as."""
    mujoco = import_mujoco()
    for geom in spec.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_CAPSULE:
            geom.type = mujoco.mjtGeom.mjGEOM_CYLINDER
            beyond = geom.size[0] / 2
            ends = np.array(geom.fromto)
            if np.isnan(ends).any():  # given by its middle and half its length
                geom.size[1] += beyond
            else:
                axis = (ends[3:] - ends[:3]) / np.linalg.norm(ends[3:] - ends[:3])
                geom.fromto[:] = [*(ends[:3] - beyond * axis), *(ends[3:] + beyond * axis)]
    with quiet_mujoco():
        return spec.compile()
