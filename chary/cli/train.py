"""`chary train ALGORITHM`: every setting is an option, with the preset's value as its default."""

from chary.algorithms import SUMMARIES, check_algorithm, summary


def main(arguments: list[str]) -> int:
    if wants_names(arguments, "chary train", "--dataset NAME", SUMMARIES):
        return 0
    algorithm, *options = arguments
    check_algorithm(algorithm)  # before JAX is imported, which takes seconds
    return _train(algorithm, options)


def wants_names(arguments: list[str], command: str, needs: str, names: dict[str, str]) -> bool:
    """Whether no algorithm was named; then those that there are have been printed."""
    if arguments and arguments[0] not in ("-h", "--help"):
        return False
    print(f"usage: {command} ALGORITHM {needs} [OPTIONS]\n")
    print("".join(f"  {name:<6} {text}\n" for name, text in names.items()))
    print(f"`{command} ALGORITHM --help` lists every setting with its default.")
    return True


def _train(algorithm: str, options: list[str]) -> int:
    from chary.cli.options import option, parse
    from chary.cli.output import Flag
    from chary.cli.runs import show_runs
    from chary.execution.processes.meeting import joined
    from chary.training import population
    from chary.training.follower import follow
    from chary.training.start import start

    parsed = parse(
        algorithm,
        options,
        prog=f"chary train {algorithm}",
        description=f"Train {algorithm} ({summary(algorithm)}) on a dataset.",
        own=[
            option("seeds", tuple[int, ...], (), "Train one run for each of these seeds, at once."),
            option(
                "population",
                tuple[str, ...],
                (),
                "Train one run for every combination of values, at once: alpha=0,0.1,0.5 beta=-4,-8. "
                "A name such as paper-antmaze is one of the paper's search grids.",
            ),
            option(
                "coordinator",
                str | None,
                None,
                "Train in several processes on one or more hosts: HOST:PORT of process 0. Start each "
                "process with this command and its own --process.",
            ),
            option("processes", int | None, None, "Number of processes, with --coordinator."),
            option(
                "process",
                int | None,
                None,
                "Index of this process, from 0. Process 0 writes the run folder.",
            ),
            option("yes", Flag, False, "Do not ask before training that takes more than a day."),
        ],
    )
    spec, own = parsed.spec, parsed.own
    with joined(own.coordinator, own.processes, own.process) as leads:
        if not leads:
            follow()
            return 0
        varied = population.parse(own.population, algorithm, spec.config)
        agents = start(spec, spec.run.dataset, seeds=own.seeds, varied=varied, yes=own.yes)
    show_runs([*agents], as_json=parsed.json)
    return 0
