"""`chary resume RUN`: go on from the newest sound checkpoint."""

from pathlib import Path
from typing import Annotated

import tyro

from chary import training
from chary.cli.output import Flag
from chary.cli.runs import show_run


def main(arguments: list[str]) -> int:
    def resume(
        run: Annotated[Path, tyro.conf.Positional],
        /,
        steps: int | None = None,
        json: Flag = False,
    ) -> None:
        """Go on with an interrupted run; it ends in the same bits as if never interrupted.

        Args:
            run: The run folder.
            steps: Lengthen the run to this many steps.
            json: Print the result as one JSON object.
        """
        agent = training.resume(run, steps=steps)
        show_run(agent.folder, as_json=json)

    tyro.cli(resume, args=arguments, prog="chary resume")
    return 0
