"""How long a decision takes: the agent itself, its ONNX file and its npz file, on one core.

    taskset -c 0 python -m benchmarks.decisions --d3rlpy .venv-d3rlpy/bin/python

Untrained MSG agents (the numbers do not matter for time) with 17 observations and 6 actions, as
halfcheetah has. `actor` is the policy's network with its scalers alone, exported in the same way; beside
it stands d3rlpy's SAC actor of the same size, exported by d3rlpy. The others return the values of all
members, the distance to 4,096 stored states and the flag as well.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import chary
from chary import algos
from chary.algos.msg_config import MSGConfig
from chary.data.scaling import RewardTransform, Scaling
from chary.deploy import npz_file, onnx_file
from chary.deploy.export import export
from chary.deploy.trace import trace
from chary.evaluation.agent import Agent
from chary.host.files import write_whole
from chary.host.machine import command_line, layout, source
from chary.report.tables import write_page

OBSERVATIONS, ACTIONS, ROWS = 17, 6, 10_000
SIZES = ((8, (64, 64, 64)), (4, (256, 256, 256)), (64, (256, 256, 256)))
BATCHES = (1, 256)
SECONDS = 1.0
REPEATS = 5
WAYS = ("actor", "d3rlpy", "onnx", "npz", "decide")


def an_agent(members: int, hidden: tuple[int, ...], folder: Path) -> Agent:
    """An agent of that size, with limits of random data."""
    rng = np.random.default_rng(0)
    dataset = chary.dataset(
        observations=rng.standard_normal((ROWS, OBSERVATIONS)).astype(np.float32),
        actions=rng.uniform(-1, 1, (ROWS, ACTIONS)).astype(np.float32),
        rewards=rng.standard_normal(ROWS).astype(np.float32),
        episodes=np.repeat(np.arange(ROWS // 100), 100),
        action_low=-1.0,
        action_high=1.0,
        name="random",
    )
    made = algos.build("msg", MSGConfig(hidden=hidden, members=members), OBSERVATIONS, ACTIONS)
    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations="moments")
    record = {"algorithm": "msg", "settings": {}, "dataset": {"name": "random"}}
    (folder / "config.json").write_text(json.dumps(record))
    agent = Agent(made, made.init(jax.random.key(0)), scaling, None, seed=0, folder=folder)
    agent.set_limits(dataset)
    return agent


def actor_alone(agent: Agent, path: Path) -> Callable[..., Any]:
    """The policy's network with its scalers, by onnxruntime."""

    def act(observations: Any) -> dict[str, Any]:
        rows = agent.scaling.observations(observations)
        return {"action": agent.scaling.from_unit(agent.algorithm.act(agent.state, rows))}

    onnx_file.write(path, trace(act, {"observations": (None, OBSERVATIONS)}), {})
    return onnx_file.read(path)[0]


def their_actor(python: Path, hidden: tuple[int, ...], path: Path) -> Callable[..., Any]:
    """d3rlpy's export of an actor of that size, by onnxruntime."""
    words = (python, "benchmarks/their_actor.py", path, OBSERVATIONS, ACTIONS, *hidden)
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    session = onnx_file.session_of(path)
    (name,) = [given.name for given in session.get_inputs()]
    return lambda observations: session.run(None, {name: observations})


def timed(run: Callable[[], Any]) -> float:
    """Seconds of a call: the least of several means."""
    run()
    means = []
    for _ in range(REPEATS):
        began, calls = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS / REPEATS or not calls:
            run()
            calls += 1
        means.append((time.perf_counter() - began) / calls)
    return min(means)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--d3rlpy", type=Path, help="Python of an environment with d3rlpy")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for members, hidden in SIZES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            agent = an_agent(members, hidden, folder)
            export(agent, folder / "agent.onnx")
            export(agent, folder / "agent.npz")
            by_onnx, _ = onnx_file.read(folder / "agent.onnx")
            by_numpy, _ = npz_file.read(folder / "agent.npz")
            actor = actor_alone(agent, folder / "actor.onnx")
            theirs = asked.d3rlpy and their_actor(asked.d3rlpy, hidden, folder / "theirs.onnx")
            for batch in BATCHES:
                given = np.random.default_rng(1).standard_normal((batch, OBSERVATIONS))
                given = given.astype(np.float32)
                seconds = {
                    "actor": timed(lambda: actor(observations=given)),  # noqa: B023
                    # Their file takes one row.
                    "d3rlpy": timed(lambda: theirs(given)) if theirs and batch == 1 else None,  # noqa: B023
                    "onnx": timed(lambda: by_onnx(observations=given)),  # noqa: B023
                    "npz": timed(lambda: by_numpy(observations=given)),  # noqa: B023
                    "decide": timed(lambda: agent.decide(given)),  # noqa: B023
                }
                rows.append(
                    {
                        "size": f"{members} x {len(hidden)}x{hidden[0]}",
                        "batch": batch,
                        **{name: value and 1e3 * value for name, value in seconds.items()},
                        "ratio": seconds["decide"] / seconds["onnx"],
                        "rate": batch / seconds["onnx"],
                        "bytes": (folder / "agent.onnx").stat().st_size,
                    }
                )
    where = layout()
    shown = [
        {
            **row,
            **{key: row[key] and f"{row[key]:.3f}" for key in WAYS},
            "against": row["d3rlpy"] and f"{row['actor'] / row['d3rlpy']:.2f}",
            "ratio": f"{row['ratio']:.1f}",
            "rate": f"{row['rate']:,.0f}",
        }
        for row in rows
    ]
    columns = {
        "size": "members x network", "batch": "batch", "actor": "actor alone, ms",
        "d3rlpy": "d3rlpy's actor, ms", "against": "ours / theirs", "onnx": "ONNX, ms",
        "npz": "NumPy, ms", "decide": "agent.decide, ms", "ratio": "decide / ONNX",
        "rate": "ONNX, decisions/s", "bytes": "bytes",
    }  # fmt: skip
    notes = [
        "Time of a call on one core: the least of five means. ONNX is onnxruntime with one thread. "
        "d3rlpy's file takes one row at a time.",
        f"Machine: {where['cpu']}, {where['threads']} core(s).",
    ]
    write_page(asked.out / "decisions.md", "How long a decision takes", shown, columns, notes=notes)
    record = {"command": command_line(), "source": source(), "machine": where, "rows": rows}
    write_whole(asked.out / "decisions.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
