"""Do our baselines learn what d3rlpy's learn? The same data, networks, settings, steps and evaluation.

    python benchmarks/agree.py --controller d4rl_hopper_medium_v2.npz

Every case (library, algorithm, dataset, seed) is trained in a process on a core of its own and leaves a
file, so that the same command goes on where it was interrupted. d3rlpy has its own environment
(`make d3rlpy`); its policies come back as plain weights and are rolled out by our evaluator, in the same
episodes as ours. Speed is measured by itself, on a machine that does nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any, NamedTuple

import agree_report
import numpy as np
from compare import Worker

from chary import config as settings
from chary.data.dataset import Dataset
from chary.errors import CharyError, unknown_name
from chary.evaluation.rollouts import Moments, evaluate
from chary.execution.config import DEFAULT
from chary.host.files import write_whole
from chary.runs.folder import RunFolder
from chary.training import plan, resolve
from chary.training import start as training
from chary.training.run_config import RunConfig, RunSpec
from chary.tune.local import shares

HERE = Path(__file__).parent
HOPPER, MAZE = "hopper-medium", "pointmaze-medium"
PRESETS = {HOPPER: "paper-gym", MAZE: "small"}
LIBRARIES = ("ours", "d3rlpy")
STEPS = {
    HOPPER: {"bc": 5_000, "iql": 5_000, "td3-bc": 5_000, "crr": 3_000, "cql": 1_000},
    MAZE: {"bc": 6_000, "iql": 6_000, "td3-bc": 6_000, "crr": 6_000, "cql": 8_000},
}
"""As many for both libraries; fewer where d3rlpy takes long."""
TRANSITIONS = 200_000
EPISODES = 100


class Case(NamedTuple):
    """One training."""

    library: str
    algorithm: str
    dataset: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.library}-{self.algorithm}-{self.dataset}-seed{self.seed}"


def chosen(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Datasets, each with the algorithms that are wanted."""
    return [(d, name) for d in options.datasets for name in STEPS[d] if name in options.algorithms]


def cases(options: argparse.Namespace) -> list[Case]:
    """Every seed of the first algorithm, then of the next: what is half done has whole rows."""
    return [
        Case(library, algorithm, dataset, seed)
        for dataset, algorithm in chosen(options)
        for seed in options.seeds
        for library in LIBRARIES
    ]


def configure(algorithm: str, dataset: str) -> tuple[Any, RunConfig]:
    """What both libraries learn with: the preset, in fewer steps, and as d3rlpy can do it."""
    steps = STEPS[dataset][algorithm]
    config, run = resolve.configure(algorithm, PRESETS[dataset], dataset)
    if algorithm == "bc":
        config = replace(config, loss="squared")
    if algorithm == "cql":
        config = replace(config, warmup_steps=0)
    if algorithm == "iql" and config.policy_decay_steps:
        config = replace(config, policy_decay_steps=steps)
    return config, replace(run, steps=steps)


def settings_of(case: Case, work: Path) -> tuple[RunSpec, Dataset]:
    """The same for one training, with the data that it learns from."""
    config, run = configure(case.algorithm, case.dataset)
    run = replace(
        run,
        dataset=str(work / f"{HOPPER}.hdf5") if case.dataset == HOPPER else case.dataset,
        seed=case.seed,
        run=work / case.name,
        eval_every=0,
        final_episodes=EPISODES,
    )
    spec = RunSpec(case.algorithm, config, run, DEFAULT, PRESETS[case.dataset])
    return resolve.complete(spec, run.dataset)


def train_ours(case: Case, work: Path) -> dict[str, Any]:
    """A run folder like any other, gone on with where it was interrupted."""
    spec, dataset = settings_of(case, work)
    training.start(spec, dataset, resume=True, yes=True)
    last = RunFolder.open(spec.folder).last()
    assert last is not None
    return last


def train_theirs(case: Case, work: Path, python: str) -> dict[str, Any]:
    """d3rlpy in its own process, and its policy in our evaluator."""
    spec, dataset = settings_of(case, work)
    scaling = plan.scaling_of(dataset, spec.run)
    arrays, policy = work / f"{case.name}-data.npz", work / f"{case.name}-policy.npz"
    batch = dataset.transitions(scaling)._asdict()
    np.savez(
        arrays,
        allow_pickle=False,
        **{name: np.asarray(x) for name, x in batch.items() if x is not None},
    )
    order = {
        "algorithm": case.algorithm,
        "settings": settings.to_json(spec.config),
        "steps": spec.run.steps,
        "seed": case.seed,
        "transitions": str(arrays),
        "policy": str(policy),
    }
    subprocess.run([python, str(HERE / "theirs.py"), json.dumps(order)], check=True)
    arrays.unlink()
    with np.load(policy) as file:
        layers = [(file[f"{i}/weight"], file[f"{i}/bias"]) for i in range(len(file.files) // 2)]

    def act(observations: np.ndarray, _: Moments) -> np.ndarray:
        """Each row by itself, as the evaluator wants it."""
        rows = scaling.observations(np.asarray(observations, np.float32))
        return scaling.from_unit(np.stack([np.tanh(forward(layers, row)) for row in rows]))

    task = dataset.task
    assert task is not None
    return evaluate(act, task, episodes=EPISODES, seed=case.seed, step=spec.run.steps).record()


def forward(layers: list[tuple[np.ndarray, np.ndarray]], row: np.ndarray) -> np.ndarray:
    """Dense layers with ReLU between them."""
    for weight, bias in layers[:-1]:
        row = np.maximum(weight @ row + bias, 0.0)
    weight, bias = layers[-1]
    return weight @ row + bias


def train_one(case: Case, cores: list[int], work: Path, python: str) -> None:
    """In a process of its own: train, evaluate, and leave the result whole or not at all."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)  # before XLA counts the cores and makes its threads
    result = train_ours(case, work) if case.library == "ours" else train_theirs(case, work, python)
    done = {**case._asdict(), "steps": STEPS[case.dataset][case.algorithm], **result}
    write_whole(work / f"{case.name}.json", json.dumps(done) + "\n")


def train_missing(options: argparse.Namespace) -> None:
    """Whatever has no result yet, one case on each core."""
    collect(options)
    wanted = cases(options)
    free: SimpleQueue[list[int]] = SimpleQueue()
    for cores in shares(options.at_once):
        free.put(cores)

    def run(case: Case) -> str | None:
        cores = free.get()
        command = [sys.executable, __file__, "--work", str(options.work)]
        command += ["--d3rlpy", str(options.d3rlpy), "--one", json.dumps([*case, cores])]
        with open(options.work / f"{case.name}.log", "w") as log:
            code = subprocess.run(command, stdout=log, stderr=log).returncode
        free.put(cores)
        print(f"{case.name}: {'done' if code == 0 else f'failed, see {log.name}'}", flush=True)
        return None if code == 0 else case.name

    missing = [case for case in wanted if not (options.work / f"{case.name}.json").exists()]
    with ThreadPoolExecutor(options.at_once) as pool:
        failed = [name for name in pool.map(run, missing) if name]
    if failed:
        raise CharyError(f"{len(failed)} of {len(wanted)} cases failed, the first: {failed[0]}.")


def time_all(options: argparse.Namespace) -> None:
    """Updates a second of both, in turn, with the networks and settings of the hopper."""
    speeds = agree_report.read_speeds(options.work)
    for algorithm in options.algorithms:
        config, _ = configure(algorithm, HOPPER)
        case = {"algorithm": algorithm, "settings": settings.to_json(config)}
        workers = {
            "ours": Worker(sys.executable, {**case, "kind": "baseline"}),
            "d3rlpy": Worker(str(options.d3rlpy), {**case, "kind": "d3rlpy-baseline"}),
        }
        rounds = [
            {name: worker.ask(options.seconds)["updates_per_s"] for name, worker in workers.items()}
            for _ in range(options.rounds)
        ]
        for worker in workers.values():
            worker.end()
        speeds[algorithm] = {
            **{f"{name}_updates_per_s": median(r[name] for r in rounds) for name in workers},
            "ratio": median(r["ours"] / r["d3rlpy"] for r in rounds),
            "rounds": rounds,
        }
        print(f"{algorithm}: {speeds[algorithm]}", flush=True)
        write_whole(options.work / "speed.json", json.dumps(speeds) + "\n")


def write(options: argparse.Namespace) -> None:
    """The page of what is there."""
    rows = agree_report.read(options.work, chosen(options), options.seeds, timed=HOPPER)
    notes = [
        f"{HOPPER}: {TRANSITIONS:,} transitions collected by `chary data collect {HOPPER}`, each "
        "algorithm's `paper-gym` preset. pointmaze-medium: its `small` preset, which was tuned with "
        "ours. Both libraries have the same transitions, scaling, networks, step sizes, batches of "
        "256, discount and number of steps, and act by the policy's mode in the same "
        f"{EPISODES} episodes at the last step. BC learns by squared error here (`--loss squared`) and "
        "CQL has no warm-up, as in d3rlpy.",
        "Seeds: "
        + ", ".join(map(str, options.seeds))
        + ". Scores are mean ± standard deviation over "
        "seeds; *within the spread* means that the means differ by no more than the larger of the two "
        "deviations.",
        "Speed: both cores, random data of 29 observations and 8 actions, the hopper's networks, "
        "medians of rounds in turn; d3rlpy is given its batches as cut arrays, which is faster than "
        "its own buffer.",
    ]
    agree_report.write(rows, options.out, notes)


def collect(options: argparse.Namespace) -> None:
    """The hopper's data, once."""
    file = options.work / f"{HOPPER}.hdf5"
    if file.exists():
        return
    if options.controller is None:
        raise CharyError(f"{file}: not there yet. Give --controller d4rl_hopper_medium_v2.npz.")
    command = [sys.executable, "-m", "chary", "data", "collect", HOPPER, "--out", str(file)]
    command += ["--controller", str(options.controller), "--steps", str(TRANSITIONS)]
    subprocess.run(command, check=True)


PARTS = {"train": train_missing, "speed": time_all, "write": write}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--controller", type=Path, help="policy that collects the hopper's data")
    parser.add_argument("--datasets", nargs="+", choices=list(STEPS), default=list(STEPS))
    names = list(STEPS[HOPPER])  # which are the other datasets' too
    parser.add_argument("--algorithms", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--work", type=Path, default=Path("runs/agree"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--d3rlpy", type=Path, default=Path(".venv-d3rlpy/bin/python"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.work = options.work.absolute()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.one:
        *case, cores = json.loads(options.one)
        train_one(Case(*case), cores, options.work, str(options.d3rlpy))
        return 0
    try:
        for part in options.parts or PARTS:
            if part not in PARTS:
                raise unknown_name("part", part, PARTS)
            PARTS[part](options)
    except CharyError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
