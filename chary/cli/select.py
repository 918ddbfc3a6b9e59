"""`chary select RUNS`: rank trained policies without a simulator."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from chary.cli.output import Flag, TrustCode, show, tell
from chary.config import require
from chary.evaluation.own_env import task_of
from chary.host.importing import trust
from chary.host.terminal import say
from chary.tune import select as selecting

COLUMNS = {
    "name": "run", "place": "place", "best": "P(first)", "value": "FQE value", "value_low": "2.5%",
    "value_high": "97.5%", "bound": "gain, low", "outside": "outside data",
    "action_error": "action error", "td_error": "TD error",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    def select(
        runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
        /,
        steps: int | None = None,
        members: int = 4,
        which: Literal["last", "best"] = "last",
        episodes: int = 0,
        env: str | None = None,
        trust_code: TrustCode = (),
        json: Flag = False,
    ) -> None:
        """Rank trained policies without a simulator, on episodes that none of them learned from.

        Args:
            runs: Folders of runs, or of a sweep, trained with --holdout 0.2.
            steps: Steps of fitted Q-evaluation per policy. If omitted: a ninth of the training's.
            members: Q-functions of fitted Q-evaluation.
            which: The last checkpoint of each run, or the one with the best score in training.
            episodes: Then spend at most this many episodes in the simulator on the shortlist. They stop
                when it is clear which policy is best.
            env: Simulator instead of the dataset's: a Gymnasium id, or your own module:make, imported
                from the current folder.
            trust_code: Import this module:Name, which the runs name (an ensemble or a simulator).
            json: Print everything as one JSON object.
        """
        require(members >= 2, "members", members, "at least 2")
        require(steps is None or steps >= 1, "steps", steps, "at least 1")
        require(episodes >= 0, "episodes", episodes, "at least 0")
        trust(trust_code)
        if episodes and env is not None:
            task_of(env)  # a wrong name is noticed before the work
        found = selecting.select(runs, steps=steps, members=members, which=which)
        if episodes:
            found = found.with_episodes(episodes, env)
        verdict = found.verdict
        rows = [row._asdict() for row in verdict.rows]
        facts = {k: v for k, v in found.record().items() if k != "rows"}
        show(rows, COLUMNS, as_json=json, **facts)
        if not json:
            tell(verdict.sentence)
            for line in (*verdict.reasons[1:], *(f"Left out: {name}." for name in found.left_out)):
                tell(line)
            if found.tried is not None:
                for line in (*found.tried.lines(), found.tried.sentence):
                    tell(line)
        if len(runs) == 1:
            say(f"written: {selecting.write(runs[0], found)}")

    tyro.cli(select, args=arguments, prog="chary select")
    return 0
