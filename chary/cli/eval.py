"""`chary eval RUN`: run a trained policy in its task."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from chary.cli.output import Flag, TrustCode, show
from chary.config import require
from chary.evaluation import acting
from chary.evaluation.video import require_kind
from chary.host.importing import trust
from chary.host.terminal import say
from chary.training import start as training

COLUMNS = {
    "run": "run", "act": "act", "episodes": "episodes", "success": "success",
    "steps_to_goal": "steps to goal", "return": "return", "return_std": "std", "score": "score",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    def evaluate(
        run: Annotated[Path, tyro.conf.Positional],
        /,
        episodes: int = 100,
        which: Literal["last", "best"] = "last",
        act: str = "mode",
        env: str | None = None,
        seed: int = 0,
        video: Path | None = None,
        trust_code: TrustCode = (),
        json: Flag = False,
    ) -> None:
        """Evaluate a run's policy.

        Args:
            run: The run folder.
            episodes: Number of episodes.
            which: The last checkpoint of the run, or the one with the best score in training.
            act: How the policy acts. mode: its mode. sample: sampled actions. both: one evaluation of
                each. best-of-32: of 32 samples the one with the largest lower confidence bound.
            env: Simulator instead of the dataset's: a Gymnasium id, or your own module:make, imported
                from the current folder.
            seed: Seed of the episodes' starts and of sampled actions.
            video: Draw the first episode into this file: a film (.gif, .webp), or a strip of pictures
                (.png).
            trust_code: Import this module:Name, which the run names (an ensemble or a simulator).
            json: Print the result, including every episode, as one JSON object.
        """
        require(episodes >= 1, "episodes", episodes, "at least 1")
        require(seed >= 0, "seed", seed, "at least 0")
        acting.resolve(act)
        if video is not None:
            require_kind(video)
        trust(trust_code)
        agent = training.open_run(run, which=which)
        agent.seed = seed
        row = {
            "run": str(run),
            "which": which,
            "episodes": episodes,
            **agent.evaluate(env, episodes, act=act).record(),
        }
        if video is not None:
            row["video"] = {"file": str(video), **agent.film(video, env, act=act)}
            say(f"the first episode is drawn in {video}")
        lines = [row] if json or "sampled" not in row else [row, _sampled(row)]
        show(lines, COLUMNS, as_json=json)

    tyro.cli(evaluate, args=arguments, prog="chary eval")
    return 0


def _sampled(row: dict[str, Any]) -> dict[str, Any]:
    """The line of a table for what an evaluation has beside its main numbers."""
    return {**row, **row["sampled"], "act": "sampled"}
