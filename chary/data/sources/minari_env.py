"""The environments of Minari's datasets, as the datasets' own metadata names them.

Metadata can name any function in any module. What it names is called only if it is an environment that
Gymnasium, Gymnasium-Robotics or chary registers, with numbers and plain words as arguments, or if the
user trusts the dataset (`--trust-environment`).
"""

import re
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chary.data.names import parsed
from chary.data.sources import minari as source
from chary.envs import Task, tells_success
from chary.errors import CharyError, printable, reason

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec

PACKAGES = ("gymnasium", "gymnasium_robotics", "chary")
WRAPPERS = frozenset(
    (
        "TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "ClipAction",
        "RescaleAction", "TimeAwareObservation", "FilterObservation", "FlattenObservation",
        "RescaleObservation", "ReshapeObservation", "ClipReward",
    )
)  # fmt: skip
"""Gymnasium's wrappers that call nothing and write nothing."""
FLAT = "chary.envs.flatten:FlatObservation"
WORD = re.compile(r"[\w \-]*")
"""Text that leads nowhere: no path, no module."""
LARGEST = 10**6
"""The largest whole number among arguments: some say how much to simulate in a step."""


def find(name: str) -> Task | None:
    """The evaluation environment of `minari:<dataset id>`, where it can be made here."""
    if not name.startswith(source.PREFIX):
        return None
    try:
        folder = source.folder_of(name)
        dataset = source.open_dataset(name, folder)
        known = source.metadata_in(Path(dataset.storage.data_path))
        spec = _spec(known)
        environment = _make(spec)
        has_success = tells_success(environment)
        environment.close()
        low, high = (known.get(f"ref_{end}_score") for end in ("min", "max"))
        references = None if low is None or high is None else (float(low), float(high))
    # Its package may be missing, or of a version that has other environments: any exception.
    except Exception as error:
        why = str(error) if isinstance(error, CharyError) else reason(error)
        warnings.warn(
            f"{name}: its environment cannot be made, so nothing is evaluated: {printable(why)}",
            stacklevel=3,
        )
        return None
    return Task(
        name, make=partial(_make, spec), reference_scores=references, has_success=has_success
    )


def _spec(metadata: dict[str, Any]) -> "EnvSpec":
    """What the metadata names: the environment for evaluation, or else the one of the data."""
    from gymnasium.envs.registration import EnvSpec, WrapperSpec

    said = parsed(metadata.get("eval_env_spec") or metadata.get("env_spec") or "null")
    if not isinstance(said, dict):
        raise ValueError("the dataset names none")
    wrappers = tuple(
        WrapperSpec(wrapper["name"], wrapper["entry_point"], wrapper["kwargs"])
        for wrapper in said.get("additional_wrappers") or ()
    )
    kept = ("id", "entry_point", "reward_threshold", "nondeterministic", "max_episode_steps")
    plain: dict[str, Any] = {key: said.get(key) for key in kept}
    return EnvSpec(
        **plain,
        kwargs={key: value for key, value in said["kwargs"].items() if key != "render_mode"},
        additional_wrappers=wrappers,
    )


def _make(spec: "EnvSpec", **options: Any) -> "gymnasium.Env[Any, Any]":
    import gymnasium

    from chary.envs.flatten import FlatObservation
    from chary.envs.physics import import_simulator

    gymnasium.register_envs(import_simulator("gymnasium_robotics"))
    if not source.trusted():
        _check(spec)
    environment = gymnasium.make(spec, **{"disable_env_checker": True, **options})
    # Gymnasium-Robotics' mazes leave their model's file behind.
    left = getattr(environment.unwrapped, "tmp_xml_file_path", None)
    if left is not None:
        Path(left).unlink(missing_ok=True)
    return FlatObservation(environment)


def _check(spec: "EnvSpec") -> None:
    """Refuse whatever is not known to be an environment and nothing else."""
    import gymnasium

    import chary.envs.registration  # noqa: F401  # after which Gymnasium knows our own

    registered = {
        each.entry_point
        for each in gymnasium.registry.values()
        if isinstance(each.entry_point, str) and each.entry_point.split(".")[0] in PACKAGES
    }
    if spec.entry_point not in registered:
        raise _distrusted(f"'{str(spec.entry_point)[:80]}'")
    for wrapper in spec.additional_wrappers:
        module, _, kind = str(wrapper.entry_point).partition(":")
        known = module.startswith("gymnasium.wrappers.") and kind in WRAPPERS
        if not (known or wrapper.entry_point == FLAT):
            raise _distrusted(f"the wrapper '{str(wrapper.entry_point)[:80]}'")
    for arguments in (spec.kwargs, *(wrapper.kwargs for wrapper in spec.additional_wrappers)):
        for key, value in (arguments or {}).items():
            if not _is_plain(value):
                raise _distrusted(f"the argument {key[:40]}={str(value)[:40]!r}")


def _is_plain(value: Any) -> bool:
    """Numbers and words, and lists and objects of them."""
    if isinstance(value, str):
        return WORD.fullmatch(value) is not None
    if isinstance(value, dict):
        return all(_is_plain(part) for item in value.items() for part in item)
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, float) or abs(value) <= LARGEST


def _distrusted(what: str) -> CharyError:
    return CharyError(
        f"its metadata asks for {what}, which may run anything. Only environments of Gymnasium, "
        "Gymnasium-Robotics and chary are made, with plain arguments. If you trust whoever made the "
        "dataset, add --trust-environment."
    )
