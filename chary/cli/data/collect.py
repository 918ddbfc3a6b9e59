"""`chary data collect`: new data from simulation."""

from math import inf
from pathlib import Path
from typing import Annotated

import tyro

from chary.cli.data.catalogue import describe
from chary.cli.output import Flag, show
from chary.config import require
from chary.data import formats, load
from chary.data.collect import antmaze, cartpole, locomotion
from chary.data.collect.controllers import MUST_HOLD, Controller, read_controller
from chary.data.dataset import Dataset
from chary.data.sources import collected
from chary.errors import CharyError, unknown_name

NAMES = (*collected.TRANSITIONS, *antmaze.MAZES, cartpole.NAME, *locomotion.NAMES)
Files = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(aliases=("--policy",), metavar="FILE[:SHARE]"),
]


def collect(
    name: Annotated[str, tyro.conf.Positional],
    /,
    controller: Files = (),
    steps: int | None = None,
    seed: int = 0,
    noise: float | None = None,
    deterministic: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Collect a dataset on all cores. After an interruption the same command resumes.

    Args:
        name: pointmaze-*, maze2d-*, antmaze-*, rlu-cartpole-swingup, or a robot (hopper, halfcheetah,
            walker2d, ant) followed by -random, -medium, -expert, -medium-expert, -mixed or nothing.
        controller: npz file of a trained policy. antmaze needs a goal-reaching ant. Robots take one or
            more files; FILE:SHARE sets a file's share of the data.
        steps: Number of transitions. If omitted: the dataset's own number.
        seed: Seed of the collection.
        noise: Standard deviation of the noise on actions. If omitted: 0.2 for antmaze, otherwise 0.
        deterministic: Use a policy's mode instead of sampled actions.
        out: File to write (.hdf5 or .npz). If omitted: the cache for pointmaze-* and maze2d-*, NAME.hdf5
            in the current folder for all others.
        json: Print what was collected as one JSON object.
    """
    if name not in NAMES and locomotion.find(name) is None:
        raise unknown_name("dataset", name, NAMES)
    require(steps is None or steps >= 1, "steps", steps, "at least 1")
    require(seed >= 0, "seed", seed, "at least 0")
    require(noise is None or 0 <= noise < inf, "noise", noise, "0 or more, and finite")
    if out is not None:
        formats.format_of(out)  # a wrong ending is noticed before the work
    scripted = name in collected.TRANSITIONS or name == cartpole.NAME
    if scripted and (controller or noise is not None or deterministic):
        raise CharyError(
            f"{name} has a controller of its own: --controller, --noise and "
            "--deterministic are for antmaze and the robots."
        )
    if name in collected.TRANSITIONS:
        dataset, where = _collect_maze(name, steps, seed, out)
    else:
        where = out or Path(f"{name}.hdf5")
        if where.exists():
            raise CharyError(f"{where}: already there. Choose another --out, or remove it.")
        size = {} if steps is None else {"transitions": steps}
        acting = {"seed": seed, "deterministic": deterministic, "out": where, **size}
        acting |= {} if noise is None else {"noise": noise}
        policies, shares = _read_policies(controller)
        if name == cartpole.NAME:
            dataset = cartpole.collect_cartpole(seed=seed, out=where, **size)
        elif name in antmaze.MAZES:
            if len(policies) != 1:
                raise CharyError(
                    f"{name}: needs one goal-reaching ant, but {len(policies)} given: --controller "
                    f"FILE, which takes {antmaze.OBSERVATION_SIZE} numbers (the ant's positions but for "
                    f"x and y, its velocities, the vector to the waypoint) and gives 8. {MUST_HOLD}"
                )
            dataset = antmaze.collect_antmaze(name, policies[0], **acting)
        else:
            dataset = locomotion.collect_locomotion(name, policies, shares=shares, **acting)
    rows = [{"file": str(where), **describe(dataset)}]
    show(rows, {"file": "file", "transitions": "transitions", "episodes": "episodes"}, as_json=json)


def _collect_maze(
    name: str, steps: int | None, seed: int, out: Path | None
) -> tuple[Dataset, Path]:
    """Into the file, or into the cache."""
    if out is not None:
        return collected.collect(name, transitions=steps, seed=seed, out=out), out
    if steps is not None or seed != 0:
        raise CharyError("--steps and --seed change the data: say where it should go with --out.")
    return load(name), collected.cached_path(name)


def _read_policies(files: tuple[str, ...]) -> tuple[list[Controller], list[float] | None]:
    """Policies and their shares of the data; None where they are equal."""
    policies, shares = [], []
    for text in files:
        file, colon, share = text.rpartition(":")
        if not colon or Path(text).expanduser().exists():  # a colon may be part of a name
            file, share = text, ""
        policies.append(read_controller(Path(file).expanduser()))
        try:
            shares.append(float(share) if share else None)
        except ValueError as error:
            raise CharyError(
                f"--policy {text}: '{share}' is not a share; FILE:0.5, say."
            ) from error
    if None in shares and any(share is not None for share in shares):
        raise CharyError("--policy: give a share to every file, or to none for equal shares.")
    return policies, None if None in shares or not shares else shares
