"""`chary resume RUN`: resume from the newest sound checkpoint."""

from pathlib import Path
from typing import Annotated

import tyro

from chary.cli.output import Flag
from chary.cli.runs import show_runs
from chary.execution.devices import Devices
from chary.execution.processes.meeting import joined
from chary.training import start
from chary.training.follower import follow
from chary.training.population import runs_in


def main(arguments: list[str]) -> int:
    def resume(
        run: Annotated[Path, tyro.conf.Positional],
        /,
        steps: int | None = None,
        alone: Flag = False,
        devices: Devices | None = None,
        coordinator: str | None = None,
        processes: int | None = None,
        process: int | None = None,
        yes: Flag = False,
        json: Flag = False,
    ) -> None:
        """Resume an interrupted run; it ends in the same bits as if never interrupted.

        Runs that are trained together are resumed together.

        Args:
            run: The run folder, or one that holds the folders of a population.
            steps: Lengthen the run to this many steps.
            alone: From now on train it without those beside it, to the same numbers but for rounding.
            devices: From now on train it on so many devices, to the same numbers but for rounding.
            coordinator: In several processes, each started with this command: HOST:PORT of process 0.
            processes: How many processes there are.
            process: Index of this process, from 0. Process 0 needs the run folder.
            yes: Do not ask before training for days.
            json: Print the result as one JSON object.
        """
        with joined(coordinator, processes, process) as leads:
            if not leads:
                return follow()
            agents = start.resume_all(
                runs_in(run), steps=steps, alone=alone, devices=devices, yes=yes
            )
        return show_runs([*agents], as_json=json)

    tyro.cli(resume, args=arguments, prog="chary resume")
    return 0
