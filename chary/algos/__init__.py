"""Algorithms by name, each with its settings and presets. A preset holds only its differences."""

from collections.abc import Callable
from typing import Any, NamedTuple

from chary.algos.bc import BCConfig, make_bc
from chary.algos.msg import make_msg
from chary.algos.msg_config import MSGConfig
from chary.errors import unknown_name
from chary.types import Algorithm


class Entry(NamedTuple):
    """An algorithm, its config class, and presets over the config and the run's settings."""

    config: type
    make: Callable[[Any, int, int], Algorithm[Any]]
    presets: dict[str, dict[str, Any]]
    summary: str


PAPER_RUN = {"eval_every": 100_000, "log_every": 5_000}
PAPER_MSG = {"regulariser_samples": "own", **PAPER_RUN}
MSG_PRESETS = {
    # Table 1 and Appendix B: alpha and beta are the paper's most frequent best, to be searched over.
    "paper-antmaze": {
        "alpha": 0.5,
        "steps": 2_000_000,
        "reward_scale": 4.0,
        "reward_shift": -0.5,
        **PAPER_MSG,
    },
    # Appendix A: members are pairs of networks.
    "paper-gym": {"targets": "double-q", "alpha": 0.5, "steps": 3_000_000, **PAPER_MSG},
    "paper-maze2d": {"steps": 2_000_000, **PAPER_MSG},
    # Appendix on RL Unplugged: D4RL's networks, alpha of 0 or 0.5; the steps are Gym's, none are given.
    "paper-rlu": {"alpha": 0.5, "steps": 3_000_000, **PAPER_MSG},
    # For two cores: small networks, few members, a short warm-up, and a policy that learns faster
    # and ends less random. A value travels about tau steps back along a path at each update, so short
    # runs need targets that follow quickly; and the way through a maze is longer than the horizon of a
    # discount of 0.99, at which the far end hardly tells one direction from another.
    "small": {
        "members": 8,
        "discount": 0.995,
        "tau": 0.05,
        "hidden": (64, 64, 64),
        "warmup_steps": 500,
        "policy_learning_rate": 1e-4,
        "temperature": 0.1,
        "target_entropy": -2.0,
        "steps": 8_000,
    },
}
BC_PRESETS = {
    "paper-antmaze": {"steps": 1_000_000, **PAPER_RUN},
    "paper-gym": {"steps": 1_000_000, **PAPER_RUN},
    "paper-maze2d": {"steps": 1_000_000, **PAPER_RUN},
    "paper-rlu": {"steps": 1_000_000, **PAPER_RUN},
    "small": {"hidden": (64, 64, 64), "learning_rate": 1e-3, "steps": 10_000},
}

ALGORITHMS = {
    "msg": Entry(MSGConfig, make_msg, MSG_PRESETS, "ensemble lower confidence bound"),
    "bc": Entry(BCConfig, make_bc, BC_PRESETS, "behavioural cloning"),
}


def entry(name: str) -> Entry:
    """The algorithm of that name."""
    if name not in ALGORITHMS:
        raise unknown_name("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
