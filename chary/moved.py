"""Modules under the names that they had before 0.2: programs that import them work, with a warning."""

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "chary.agent": "chary.evaluation.agent",
    "chary.evaluate": "chary.evaluation.rollouts",
    "chary.follower": "chary.training.follower",
    "chary.losses": "chary.networks.losses",
    "chary.nets": "chary.networks.layers",
    "chary.optimise": "chary.networks.optimisers",
    "chary.policies": "chary.networks.policies",
    "chary.population": "chary.training.population",
    "chary.processes": "chary.execution.processes.meeting",
    "chary.statistics": "chary.report.statistics",
    "chary.targets": "chary.networks.targets",
}


class _Finder(MetaPathFinder, Loader):
    """Finds a module under its old name and hands out what the new one has."""

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        home = MOVED[module.__name__]
        warnings.warn(f"{module.__name__} is now {home}.", DeprecationWarning, stacklevel=2)

        def find(name: str) -> Any:
            return getattr(import_module(home), name)

        vars(module)["__getattr__"] = find


def install() -> None:
    """Look here for what is found nowhere else."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
