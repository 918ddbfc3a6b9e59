"""What does fine-tuning gain, does optimism explore, and do independent targets help it?

    python -m benchmarks.finetune pointmaze-large --runs ~/finetune
    python -m benchmarks.finetune hidden-goal --runs ~/finetune
    python -m benchmarks.finetune antmaze-umaze-v2 --data-file umaze.hdf5 --runs ~/finetune

Every method gets the same environment steps and one update per step, in the same seeds. Called again,
the script resumes what was interrupted and skips what is done.

`hidden-goal` is a maze whose data ends before the goal: pointmaze-umaze, of which only the first
corridor is in the data, without a single reward.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import chary
from chary.data.dataset import Dataset
from chary.envs import find_task
from chary.envs.mazes import MAZES, Maze, PointMaze
from chary.errors import CharyError
from chary.host.files import write_whole
from chary.host.machine import command_line, layout, source
from chary.host.terminal import say
from chary.report.tables import write_page
from chary.runs.folder import RunFolder

KNOWN_ROWS = 1
"""Rows of cells, from the top, that the data of `hidden-goal` has seen."""


class Method(NamedTuple):
    """One way to spend the environment steps."""

    words: str
    algorithm: str
    offline: dict[str, Any]
    """Settings of the offline run that it starts from."""
    online: dict[str, Any]
    from_nothing: bool = False


MSG = {"preset": "auto"}
SHARED = {"preset": "auto", "targets": "shared-lcb"}
# Without rewards all targets become alike; fixed random networks keep members apart off the data.
PRIOR = {"preset": "auto", "ensemble": "prior", "prior_scale": 3.0}
METHODS = {
    "ucb": Method("MSG, mean + std (UCB)", "msg", MSG, {"explore": "ucb"}),
    "ucb-policy": Method(
        "MSG, UCB and a policy that maximises it", "msg", MSG, {"explore": "ucb", "policy_beta": 1.0}
    ),
    "ucb-prior": Method(
        "MSG with fixed priors, UCB and a policy that maximises it", "msg", PRIOR,
        {"explore": "ucb", "policy_beta": 1.0},
    ),
    "mean-prior": Method("MSG with fixed priors, mean", "msg", PRIOR, {"explore": "mean"}),
    "mean": Method("MSG, mean", "msg", MSG, {"explore": "mean"}),
    "lcb": Method("MSG, lower bound", "msg", MSG, {"explore": "lcb"}),
    "kept": Method(
        "MSG, lower bound, pessimism kept", "msg", MSG, {"explore": "lcb", "keep_pessimism": 1.0}
    ),
    "policy": Method("MSG, samples of the policy", "msg", MSG, {"explore": "policy"}),
    "shared-ucb": Method("MSG with shared targets, UCB", "msg", SHARED, {"explore": "ucb"}),
    "iql": Method("IQL", "iql", {"preset": "auto"}, {"explore": "policy"}),
    "cal-ql": Method("Cal-QL", "cql", {"preset": "auto", "calibrated": True}, {"explore": "policy"}),
    "rlpd": Method(
        "RLPD-style, from nothing beside the data", "sac-n", {"preset": "rlpd-small"},
        {"explore": "policy"}, from_nothing=True,
    ),
}  # fmt: skip


class Setting(NamedTuple):
    """A task, and how long is learned in it."""

    name: str
    dataset: str | Dataset
    env: str | None
    offline: dict[str, Any]
    online: dict[str, Any]
    methods: tuple[str, ...] = tuple(METHODS)
    data_file: Path | None = None
    nothing: dict[str, Any] = {}
    """Settings of runs from nothing."""
    presets: dict[str, str] = {}
    """Of algorithms that have one for this task."""


def setting_of(name: str, runs: Path, data_file: Path | None) -> Setting:
    """The task by its name."""
    if name == "hidden-goal":
        return Setting(
            name, hidden_goal(runs), "benchmarks.finetune:hidden_goal_env",
            {"steps": 2_000}, {"steps": 20_000, "warmup": 1_000, "eval_every": 2_000},
            ("ucb", "ucb-policy", "mean", "lcb", "policy", "shared-ucb", "ucb-prior", "mean-prior"),
        )  # fmt: skip
    if name == "pointmaze-large":
        # Values must reach over a way of hundreds of steps.
        far = {"discount": 0.998, "n_step": 5}
        online = {"steps": 10_000, "warmup": 1_000, "eval_every": 1_000}
        methods = tuple(name for name in METHODS if not name.endswith("-prior"))
        return Setting(name, name, None, {"steps": 4_000, **far}, online, methods, nothing=far)
    if name.startswith("antmaze"):
        online = {"steps": 10_000, "warmup": 1_000, "eval_every": 2_000}
        methods = ("ucb", "mean", "lcb", "kept", "policy", "iql", "rlpd")
        presets = {"msg": "antmaze-fast", "sac-n": "rlpd"}
        return Setting(
            name, name, None, {"steps": 10_000}, online, methods, data_file, presets=presets
        )
    raise CharyError(f"'{name}' is no task of this benchmark.")


def hidden_goal_env(**options: Any) -> PointMaze:
    """The maze with its goal at the far end of what the data knows."""
    return PointMaze(MAZES["pointmaze-umaze"], **options)


def hidden_goal(runs: Path) -> Dataset:
    """Walks in the first corridor: episodes of pointmaze-umaze, cut where they leave it."""
    path = runs / "hidden-goal.npz"
    if not path.exists():
        whole, maze = chary.load("pointmaze-umaze"), MAZES["pointmaze-umaze"]
        both = np.stack([whole.observations[:, 1], whole.next_observations[:, 1]])
        lowest = maze.centre((KNOWN_ROWS, 1))[1] - maze.size / 2
        inside = (both > lowest).all(axis=0)
        columns = {
            name: np.array(getattr(whole, name)[inside])
            for name in ("observations", "actions", "next_observations", "rewards")
        }
        # A row ends a walk where the next one does not begin where it has led.
        onward = np.append(
            np.abs(columns["next_observations"][:-1] - columns["observations"][1:]).max(1) < 1e-4,
            False,
        )
        columns |= {"timeouts": ~onward, "terminals": np.zeros(len(onward), bool)}
        from chary.data import formats

        path.parent.mkdir(parents=True, exist_ok=True)
        formats.write(Dataset.from_columns(columns, name="hidden-goal"), path)
    return chary.load(path)


def run_all(setting: Setting, methods: list[str], seeds: list[int], runs: Path) -> None:
    """All runs of a task, one after the other; those that are done are passed over."""
    for seed in seeds:
        for name in methods:
            method, folder = METHODS[name], runs / setting.name / f"{name}-{seed}"
            if _is_done(folder):
                continue
            say(f"{setting.name}: {name}, seed {seed}")
            if RunFolder.exists(folder):
                chary.resume(folder)
            elif method.from_nothing:
                _start(setting, method, seed, folder)
            else:
                parent = runs / setting.name / "parents" / f"{_parent(method)}-{seed}"
                _train_parent(setting, method, seed, parent)
                chary.finetune(parent, out=folder, seed=seed, **_online(setting, method))


def _parent(method: Method) -> str:
    kind = method.offline.get("targets") or method.offline.get("ensemble")
    return f"{method.algorithm}-{kind}" if kind else method.algorithm


def _online(setting: Setting, method: Method) -> dict[str, Any]:
    common = {"eval_episodes": 20, "final_episodes": 50, "log_every": 500, "act": "mode"}
    return {**common, **setting.online, **method.online}


def _offline(setting: Setting, method: Method) -> dict[str, Any]:
    preset = setting.presets.get(method.algorithm, method.offline["preset"])
    data = {"data_file": setting.data_file} if setting.data_file else {}
    return {**method.offline, "preset": preset, **data}


def _train_parent(setting: Setting, method: Method, seed: int, folder: Path) -> None:
    if _is_done(folder):
        return
    settings = {**_offline(setting, method), **setting.offline, "env": setting.env}
    chary.train(
        method.algorithm, setting.dataset, run=folder, resume=True, seed=seed, eval_every=0,
        final_episodes=50, **settings,
    )  # fmt: skip


def _start(setting: Setting, method: Method, seed: int, folder: Path) -> None:
    chary.train_online(
        method.algorithm, setting.env, dataset=setting.dataset, run=folder, seed=seed,
        **{**_offline(setting, method), **setting.nothing, **_online(setting, method)},
    )  # fmt: skip


def _is_done(folder: Path) -> bool:
    if not RunFolder.exists(folder):
        return False
    opened = RunFolder.open(folder)
    last = opened.last()
    return last is not None and last["step"] >= opened.config["run"]["steps"]


SQUARES = 4
"""Squares along a side of a maze's cell, by which is counted where a run has been."""


def visited(opened: RunFolder, maze: Maze) -> float:
    """The share of the free maze that a run walked through while it learned in it."""
    side = maze.size / SQUARES
    corner = np.array([maze.extent[0], maze.extent[2]])
    seen: set[tuple[int, int]] = set()
    for rows in opened.rows():
        places = np.floor((rows["observations"][:, :2] - corner) / side).astype(int)
        seen.update(map(tuple, np.unique(places, axis=0).tolist()))
    return len(seen) / (len(maze.free_cells) * SQUARES**2)


def measured(folder: Path, maze: Maze) -> dict[str, Any]:
    """What a run of fine-tuning gained and lost on the way."""
    opened = RunFolder.open(folder)
    evals = opened.read("evals")
    key = "success" if evals[0].get("success") is not None else "return"
    curve = [(line["step"], line[key]) for line in evals]
    episodes = opened.read("episodes")
    acted = [e["success"] if key == "success" else e["return"] for e in episodes]
    found = [e["step"] for e in episodes if e.get("success")]
    return {
        "seed": opened.config["run"]["seed"],
        "before": curve[0][1],
        "after": curve[-1][1],
        "regret": float(np.mean([1.0 - value for _, value in curve[1:]])),
        "lowest": min(value for _, value in curve[1:]),
        "acted": float(np.mean(acted)) if acted else None,
        "episodes": len(acted),
        "first_success": found[0] if found else None,
        "visited": visited(opened, maze),
        "guard": float(np.mean([e["guard"] for e in episodes])) if episodes else 0.0,
        "curve": curve,
    }


COLUMNS = {
    "method": "method", "before": "before", "after": "after", "regret": "regret", "lowest": "lowest",
    "acted": "acted episodes that succeed", "first": "first success at step",
    "visited": "share of the maze visited",
}  # fmt: skip


def rows_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """A line a method: the mean, and every seed's number."""
    rows = []
    for name, seeds in record["methods"].items():
        row: dict[str, Any] = {"method": METHODS[name].words}
        for key in ("before", "after", "regret", "lowest", "acted", "visited"):
            values = [seed[key] for seed in seeds if seed[key] is not None]
            each = " ".join(f"{value:.2f}" for value in values)
            row[key] = f"**{np.mean(values):.2f}** ({each})" if values else ""
        firsts = (f"{s['first_success']:,}" if s["first_success"] else "never" for s in seeds)
        rows.append({**row, "first": ", ".join(firsts)})
    return rows


MARGIN = 0.05
"""Of regret, by which one way is better than another; results/finetune.md has the rules."""


def verdict(record: dict[str, Any], ours: str, theirs: str) -> str:
    """By the rule that was written before the runs: which of two ways of acting is better, if any."""
    regrets = [[seed["regret"] for seed in record["methods"][name]] for name in (ours, theirs)]
    gains = np.subtract(regrets[1], regrets[0])
    needed = 2 * len(gains) / 3
    word = "cannot be told apart from"
    if gains.mean() >= MARGIN and (gains > 0).sum() >= needed:
        word = "is better than"
    elif gains.mean() <= -MARGIN and (gains < 0).sum() >= needed:
        word = "is worse than"
    means = [float(np.mean(regret)) for regret in regrets]
    names = [METHODS[name].words for name in (ours, theirs)]
    return f"{names[0]} {word} {names[1]} (regret {means[0]:.2f} against {means[1]:.2f})."


def verdicts(record: dict[str, Any]) -> list[str]:
    """UCB against every other method of the record."""
    others = [name for name in record["methods"] if name != "ucb"]
    return [verdict(record, "ucb", name) for name in others] if "ucb" in record["methods"] else []


def draw(record: dict[str, Any], path: Path) -> None:
    """Success against environment steps: the mean of the seeds, and every seed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    for name, seeds in record["methods"].items():
        curves = [np.array(seed["curve"]) for seed in seeds]
        line = axes.plot(curves[0][:, 0], np.mean([c[:, 1] for c in curves], axis=0), lw=2)[0]
        line.set_label(METHODS[name].words)
        for curve in curves:
            axes.plot(curve[:, 0], curve[:, 1], lw=0.7, alpha=0.35, color=line.get_color())
    axes.set(xlabel="environment steps", ylabel="success", ylim=(-0.03, 1.03))
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("task")
    parser.add_argument("--data-file", type=Path)
    parser.add_argument("--methods", nargs="+", choices=[*METHODS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results"))
    asked = parser.parse_args()
    runs = asked.runs.expanduser().resolve()
    setting = setting_of(asked.task, runs, asked.data_file)
    methods = asked.methods or [*setting.methods]
    run_all(setting, methods, asked.seeds, runs)
    task = find_task("pointmaze-umaze" if setting.name == "hidden-goal" else setting.name)
    assert task is not None and task.maze is not None
    maze = task.maze
    record = {
        "task": setting.name,
        "offline": setting.offline,
        "online": setting.online,
        "methods": {
            name: [measured(runs / setting.name / f"{name}-{seed}", maze) for seed in asked.seeds]
            for name in methods
        },
        "command": command_line(),
        "layout": layout(),
        "source": source(),
    }
    stem = asked.out / f"finetune-{setting.name}"
    write_whole(stem.with_suffix(".json"), json.dumps(record, indent=1, default=str) + "\n")
    draw(record, stem.with_suffix(".png"))
    write_page(
        stem.with_suffix(".md"),
        f"Fine-tuning on {setting.name}",
        rows_of(record),
        COLUMNS,
        notes=[
            f"Offline: {_words({**setting.offline, **setting.presets})}. Then in the task: "
            f"{_words(setting.online)}, one update per environment step, half of each batch logged "
            "data.",
            "Success by the policy's mode: 20 episodes per evaluation, 50 at the end. Regret is 1 minus "
            "the mean success of the evaluations after the first; lowest is the worst of them. In "
            "brackets, every seed.",
        ],
        after="\n".join(f"- {line}" for line in verdicts(record))
        + f"\n\n![Success against environment steps]({stem.name}.png)",
    )


if __name__ == "__main__":
    main()
