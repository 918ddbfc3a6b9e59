"""Weights & Biases: offline unless the user asks otherwise, written anew each time a run is followed.

A run that begins with the id of an earlier one overwrites it (W&B's documentation of `resume`, which is
not set here), so that a run is never there twice.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chary.track import Point, RunInfo, Status


class WandbRun:
    """A run of W&B."""

    def __init__(self, info: RunInfo):
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read as it is imported
        import wandb

        place = (info.where or Path(os.environ.get("WANDB_DIR") or info.folder.parent)).absolute()
        place.mkdir(parents=True, exist_ok=True)
        mode: Any = "online" if info.online else os.environ.get("WANDB_MODE") or "offline"
        for old in (place / "wandb").glob(f"offline-run-*-{info.id}"):
            shutil.rmtree(old)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or info.project,
            id=info.id,
            name=info.name,
            config=info.config,
            dir=str(place),
            mode=mode,
            reinit="create_new",  # runs that are trained side by side have one each
            save_code=False,
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                init_timeout=30,
                finish_timeout=60,
                x_disable_meta=True,
                x_disable_stats=True,
                x_save_requirements=False,
            ),
        )
        sent = f"wandb: offline, in {place / 'wandb'}; `wandb sync {place}/wandb/offline-run-*` sends it"
        self.look = sent if mode == "offline" else f"wandb: {mode}, {self._run.url or place}"

    def log(self, points: Sequence[Point]) -> None:
        for step, at, numbers in points:
            self._run.log({**numbers, "_timestamp": at}, step=step)

    def end(self, status: Status, summary: Point) -> None:
        self._run.summary.update({**summary.numbers, "status": status})
        self._run.finish(exit_code=0 if status == "finished" else 1)


begin = WandbRun
