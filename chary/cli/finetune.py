"""`chary finetune RUN`: let a trained run learn on in its task."""

from dataclasses import field, fields, make_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import tyro

from chary.cli.options import hide, option
from chary.cli.output import Flag
from chary.cli.runs import show_runs
from chary.online.config import OnlineConfig
from chary.training.finetune import finetune
from chary.training.run_config import RunConfig

CHOSEN = frozenset({
    "steps", "env", "seed", "log_every", "eval_every", "eval_episodes", "final_episodes", "act",
    "checkpoint_minutes", "track",
})  # fmt: skip
"""Settings of a run that fine-tuning chooses anew; all others are the parent's."""


def main(arguments: list[str]) -> int:
    others = frozenset(f.name for f in fields(RunConfig)) - CHOSEN
    run_options = hide(RunConfig, others)
    command = make_dataclass(
        "Finetune",
        [
            (
                "parent",
                Annotated[Path, tyro.conf.Positional, tyro.conf.arg(help="The trained run.")],
            ),
            option(
                "run", Path | None, None, "Run folder. If omitted: <the trained run>-finetuned."
            ),
            ("training", run_options, field(default=run_options(steps=100_000))),
            ("acting", online_options(), field(default=online_options()())),
            option("yes", Flag, False, "Do not ask before training that takes more than a day."),
            option("json", Flag, False, "Print the result as one JSON object."),
        ],
    )
    parsed: Any = tyro.cli(
        command,
        args=arguments,
        prog="chary finetune",
        description="Let a trained run learn on in its task. Steps are environment steps. The logged "
        "data stays in use, and pessimism goes as the run learns.",
        config=(tyro.conf.OmitArgPrefixes,),
    )
    changes = {name: getattr(parsed.training, name) for name in CHOSEN}
    online = {f.name: getattr(parsed.acting, f.name) for f in fields(OnlineConfig)}
    if changes["env"] is None:
        del changes["env"]  # the run's own
    changes |= {name: value for name, value in online.items() if name != "parent"}
    agent = finetune(parsed.parent, out=parsed.run, yes=parsed.yes, **changes)
    show_runs([agent.folder], as_json=parsed.json)
    return 0


@cache
def online_options() -> Any:
    """The settings of acting, as options."""
    return hide(OnlineConfig, frozenset({"parent"}))
