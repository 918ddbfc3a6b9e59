"""`chary eval RUN`: run a trained policy in its task."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from chary import training
from chary.cli.output import Flag, show
from chary.settings import require

COLUMNS = {
    "run": "run", "episodes": "episodes", "success": "success", "steps_to_goal": "steps to goal",
    "return": "return", "return_std": "std", "score": "score",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    def evaluate(
        run: Annotated[Path, tyro.conf.Positional],
        /,
        episodes: int = 100,
        which: Literal["last", "best"] = "last",
        seed: int = 0,
        json: Flag = False,
    ) -> None:
        """Evaluate a run's policy, acting without randomness.

        Args:
            run: The run folder.
            episodes: How many episodes to run.
            which: The last state of the run, or the one that scored best while training.
            seed: Seed of the episodes' starts.
            json: Print the result, every episode included, as one JSON object.
        """
        require(episodes >= 1, "episodes", episodes, "at least 1")
        require(seed >= 0, "seed", seed, "at least 0")
        agent = training.open_run(run, which=which)
        agent.seed = seed
        row = {
            "run": str(run),
            "which": which,
            "episodes": episodes,
            **agent.evaluate(episodes).record(),
        }
        show([row], COLUMNS, as_json=json)

    tyro.cli(evaluate, args=arguments, prog="chary eval")
    return 0
