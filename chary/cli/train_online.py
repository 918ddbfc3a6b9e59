"""`chary train-online ALGORITHM --env ID`: learn in a task from nothing."""

from dataclasses import field

from chary.algorithms import SUMMARIES, check_algorithm, summary
from chary.cli.train import wants_names


def main(arguments: list[str]) -> int:
    names = {name: text for name, text in SUMMARIES.items() if name != "bc"}
    if wants_names(arguments, "chary train-online", "--env ID", names):
        return 0
    algorithm, *options = arguments
    check_algorithm(algorithm)  # before JAX is imported, which takes seconds
    return _train(algorithm, options)


def _train(algorithm: str, options: list[str]) -> int:
    from chary.cli.finetune import online_options
    from chary.cli.options import filled, option, parse
    from chary.cli.output import Flag
    from chary.cli.runs import show_runs
    from chary.online.config import OnlineConfig
    from chary.training.finetune import start_online

    parsed = parse(
        algorithm,
        options,
        prog=f"chary train-online {algorithm}",
        description=f"Let {algorithm} ({summary(algorithm)}) learn in a task from nothing. Steps are "
        "environment steps. With --dataset, half of each batch is logged data.",
        own=[
            ("acting", online_options(), field(default=online_options()())),
            option("yes", Flag, False, "Do not ask before training that takes more than a day."),
        ],
        hidden=frozenset({"patience", "devices"}),
        defaults={"steps": 100_000},
        needs_data=False,
    )
    spec = parsed.spec._replace(online=filled(OnlineConfig, parsed.own.acting))
    agent = start_online(spec, spec.run.dataset or None, yes=parsed.own.yes)
    show_runs([agent.folder], as_json=parsed.json)
    return 0
