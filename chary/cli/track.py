"""`chary track RUNS`: pass the logs of runs on to a tracker."""

from pathlib import Path
from typing import Annotated

import tyro

from chary.cli.output import Flag, tell
from chary.errors import CharyError
from chary.track import TrackerName


def main(arguments: list[str]) -> int:
    def track(
        runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
        /,
        to: TrackerName,
        project: str | None = None,
        where: Path | None = None,
        online: Flag = False,
    ) -> None:
        """Pass the logs of runs on to an experiment tracker: settings, metrics, evaluations, scores.

        A run that is there already is brought up to date. `chary train --track NAME` does the same while
        a run trains. Everything stays on this machine, unless you set --online, WANDB_MODE=online, or
        MLFLOW_TRACKING_URI to a server.

        Args:
            runs: Run folders, or folders that contain run folders.
            to: The tracker.
            project: Name of its project or experiment. If omitted: of the folder that a run is in.
            where: Folder for the tracker's files. If omitted: tensorboard: the run folder. wandb and
                mlflow: the folder that the run is in. trackio: its own.
            online: Send the runs: wandb to your account, trackio to the server or Space that its
                variables name.
        """
        from chary.runs.claims import claimed
        from chary.runs.folder import RunFolder, find_runs
        from chary.track import require
        from chary.track.following import Following

        require([to])
        found = [path for folder in runs for path in find_runs(folder)]
        if not found:
            raise CharyError(f"{', '.join(map(str, runs))}: no run here. Name folders with runs.")
        look: dict[str, None] = {}
        for path in found:
            with claimed(path):  # a run in training has its trackers already
                folder = RunFolder.open(path)
                options = {"project": project, "where": where, "online": online}
                with Following(folder, [to], strict=True, **options) as following:
                    look |= dict.fromkeys(following.look)
        tell(f"{len(found)} run{'s' if len(found) > 1 else ''} passed on.")
        for line in look:
            tell(line)

    tyro.cli(track, args=arguments, prog="chary track")
    return 0
