"""The environments of Minari's datasets, as the datasets' own metadata recovers them."""

import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chary.data.sources import minari as source
from chary.envs import Task, tells_success
from chary.errors import reason

if TYPE_CHECKING:
    import gymnasium


def find(name: str) -> Task | None:
    """The evaluation environment of `minari:<dataset id>`, where it can be made here."""
    if not name.startswith(source.PREFIX):
        return None
    try:
        dataset = source.open_dataset(name, source.folder_of(name))
        environment = _make(dataset)
        has_success = tells_success(environment)
        environment.close()
    # Its package may be missing, or of a version that has other environments: any exception.
    except Exception as error:
        warnings.warn(
            f"{name}: its environment cannot be made, so nothing is evaluated: {reason(error)}",
            stacklevel=3,
        )
        return None
    known = dataset.storage.metadata
    scores = known.get("ref_min_score"), known.get("ref_max_score")
    return Task(
        name,
        make=partial(_make, dataset),
        reference_scores=None if None in scores else (float(scores[0]), float(scores[1])),
        has_success=has_success,
    )


def _make(dataset: Any, **options: Any) -> "gymnasium.Env[Any, Any]":
    import gymnasium

    from chary.envs.flatten import FlatObservation
    from chary.envs.physics import import_simulator

    gymnasium.register_envs(import_simulator("gymnasium_robotics"))
    options = {"disable_env_checker": True, **options}
    environment = dataset.recover_environment(eval_env=True, **options)
    # Gymnasium-Robotics' mazes leave their model's file behind.
    left = getattr(environment.unwrapped, "tmp_xml_file_path", None)
    if left is not None:
        Path(left).unlink(missing_ok=True)
    return FlatObservation(environment)
