"""Settings of how a run is executed. They change its speed and its rounding, nothing else."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from chary.config import Checked, Positive, require
from chary.errors import CharyError
from chary.execution.devices import Devices
from chary.networks.matmul import Matmul

Executor: TypeAlias = Literal["fused", "plain"]


@dataclass(frozen=True)
class Execution(Checked):
    """Windows, devices and precision. A run resumes to the same bits with the same values."""

    executor: Executor = "fused"
    """How critics are trained. fused: a few members at a time, all their passes in one. plain: all
    members at once, a pass for each kind of action, Optax's Adam; slower, and easy to check."""
    window: Positive | None = None
    """Members that are updated together, a divisor of their number. By default as many as fit into 32 MB
    of cache."""
    devices: Devices = 1
    """Devices among which separate members (deep and prior ensembles) are divided: a divisor of their
    number, or all."""
    matmul: Matmul = "float32"
    """Number format of matrix products in training: float32, or bfloat16 for accelerators that are
    faster with it. Sums, parameters and targets stay in float32."""

    @staticmethod
    def migrated(settings: dict[str, Any]) -> dict[str, Any]:
        """Settings under their present names: a window was once called a chunk."""
        if "chunk" not in settings:
            return settings
        rest = {name: value for name, value in settings.items() if name != "chunk"}
        return {**rest, "window": settings["chunk"]}

    @classmethod
    def recorded(cls, config: dict[str, Any]) -> dict[str, Any]:
        """The settings in a run's config.json. Before 0.2 they stood among the algorithm's and the
        run's, and only MSG was fused."""
        if "execution" in config:
            return config["execution"]
        settings, run = config["settings"], config["run"]
        return {
            "executor": "fused" if config["algorithm"] == "msg" else "plain",
            "window": settings.get("chunk"),
            "devices": settings.get("devices", 1),
            "matmul": run.get("matmul", "float32"),
        }

    def check_members(self, members: int) -> None:
        """Refuse windows and devices that do not divide the members."""
        devices = 1 if self.devices == "all" else self.devices  # counted later
        require(
            members % devices == 0,
            "devices",
            devices,
            f"all, or a divisor of the number of members ({members})",
        )
        each = members // devices
        require(
            self.window is None or each % self.window == 0,
            "window",
            self.window,
            f"a divisor of the number of members{' on a device' * (devices > 1)} ({each})",
        )
        if self.executor == "plain" and (self.window or self.devices != 1):
            raise CharyError(
                "--executor plain updates all members at once on one device: leave out --window and "
                "--devices."
            )


DEFAULT = Execution()
