"""`chary train ALGORITHM`: every setting is an option, with the preset's value as its default."""

from chary import algos
from chary.cli.options import parse
from chary.cli.runs import show_run
from chary.training import start


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        names = "\n".join(f"  {n:<6} {e.summary}" for n, e in algos.ALGORITHMS.items())
        print(f"usage: chary train ALGORITHM --dataset NAME [OPTIONS]\n\n{names}\n")
        print("`chary train ALGORITHM --help` lists every setting with its default.")
        return 0
    algorithm, *options = arguments
    summary = algos.entry(algorithm).summary
    parsed = parse(
        algorithm,
        options,
        prog=f"chary train {algorithm}",
        description=f"Train {algorithm} ({summary}) on a dataset.",
    )
    agent = start(
        algorithm, parsed.config, parsed.run, dataset=parsed.run.dataset, preset=parsed.preset
    )
    show_run(agent.folder, as_json=parsed.json)
    return 0
