"""`chary resume RUN`: resume from the newest sound checkpoint."""

from pathlib import Path
from typing import Annotated

import tyro

from chary.cli.output import Flag, TrustCode
from chary.cli.runs import show_runs
from chary.execution.devices import Devices
from chary.execution.processes.meeting import joined
from chary.host.importing import trust
from chary.track import TrackerName
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
        track: tuple[TrackerName, ...] | None = None,
        from_start: Flag = False,
        coordinator: str | None = None,
        processes: int | None = None,
        process: int | None = None,
        trust_code: TrustCode = (),
        yes: Flag = False,
        json: Flag = False,
    ) -> None:
        """Resume an interrupted run. The result is bit-identical to an uninterrupted run.

        Resuming one run of a population resumes all runs of its group.

        Args:
            run: The run folder, or the folder of a population.
            steps: Extend the run to this many steps.
            alone: Resume this run only. It leaves its group permanently; results change by rounding.
            devices: Train on this many devices from now on. Results change by rounding.
            track: Pass the logs on to these trackers from now on. If omitted: to the run's own.
            from_start: Begin again at step 0 if there are logs but no intact checkpoint. What there was
                is kept in the run's folder `aside`.
            coordinator: HOST:PORT of process 0, to train in several processes with this command in each.
            processes: Number of processes.
            process: Index of this process, from 0. Only process 0 needs the run folder.
            trust_code: Import this module:Name, which the run names (an ensemble or a simulator).
            yes: Do not ask before training that takes more than a day.
            json: Print the result as one JSON object.
        """
        trust(trust_code)
        with joined(coordinator, processes, process) as leads:
            if not leads:
                return follow()
            agents = start.resume_all(
                runs_in(run),
                steps=steps,
                alone=alone,
                devices=devices,
                track=track,
                yes=yes,
                from_start=from_start,
            )
        return show_runs([*agents], as_json=json)

    tyro.cli(resume, args=arguments, prog="chary resume")
    return 0
