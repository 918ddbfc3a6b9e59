"""`chary demo`: from nothing to a trained policy and a picture of it."""

from pathlib import Path

import tyro

from chary.cli.demo_run import EPISODES, run_demo
from chary.cli.output import Flag, show, tell
from chary.config import require

COLUMNS = {
    "name": "", "success": "success", "steps_to_goal": "steps to goal",
    "score": "normalised return", "steps": "gradient steps", "seconds": "seconds",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    def demo(out: Path = Path("demo"), seed: int = 0, json: Flag = False) -> None:
        """Collect pointmaze-umaze, train behavioural cloning and MSG, compare, draw and report.

        Args:
            out: Folder for runs, figure and report. Complete runs in it are reused.
            seed: Seed of training and evaluation.
            json: Print the table as one JSON object.
        """
        require(seed >= 0, "seed", seed, "at least 0")
        rows, figure, report = run_demo(out, seed=seed)
        title = f"From the far corner, {EPISODES} episodes, seed {seed} (data: its own episodes)"
        show(
            rows,
            COLUMNS,
            as_json=json,
            title=title,
            figure=str(figure),
            report=str(report),
            seed=seed,
        )
        if not json:
            tell(f"figure: {figure}\nruns:   {out}  (see `chary runs {out}`)\nreport: {report}")

    tyro.cli(demo, args=arguments, prog="chary demo")
    return 0
