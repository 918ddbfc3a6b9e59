"""MSG's presets: the paper's for each domain, and those for two cores. Each holds only differences."""

from typing import Any

from chary.algos.critics import LONG_RUN

PAPER: dict[str, Any] = {"regulariser_samples": "own", "act": "both", **LONG_RUN}
PRESETS: dict[str, dict[str, Any]] = {
    # Table 1 and Appendix B: alpha and beta are the paper's most frequent best; `paper.py` has all.
    "paper-antmaze": {
        "alpha": 0.5,
        "steps": 2_000_000,
        "reward_scale": 4.0,
        "reward_shift": -0.5,
        **PAPER,
    },
    # Appendix A: members are pairs of networks.
    "paper-gym": {"targets": "double-q", "alpha": 0.5, "steps": 3_000_000, **PAPER},
    "paper-maze2d": {"steps": 2_000_000, **PAPER},
    # Appendix on RL Unplugged: D4RL's networks, alpha of 0 or 0.5; the steps are Gym's, none are given.
    "paper-rlu": {"alpha": 0.5, "steps": 3_000_000, **PAPER},
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
        "steps": 8_000,
    },
    # For a laptop: what the ladder on antmaze found (results/antmaze). A fast policy is held by the
    # logged actions, not by slow steps; its bound is relative to them, so that one weight of the
    # penalty suits every maze; and values travel five steps at an update.
    "antmaze-fast": {
        "members": 4,
        "layer_norm": True,
        "policy": "deterministic",
        "entropy": "off",
        "bound": "relative",
        "cloning": 2.0,
        "alpha": 0.0,
        "n_step": 5,
        "discount": 0.995,
        "tau": 0.01,
        "policy_learning_rate": 3e-4,
        "policy_every": 2,
        "warmup_steps": 0,
        "act": "both",
        "steps": 100_000,
        "eval_every": 10_000,
        "reward_scale": 4.0,
        "reward_shift": -0.5,
    },
    # For a log of one's own, with observations and rewards of a standard scale (`data.scaling`). Found
    # on examples/heating; results/own-data-preset.md has it beside others on three logs.
    "own-data": {
        "members": 10,
        "hidden": (64, 64),
        "batch_size": 128,
        "tau": 0.01,
        "warmup_steps": 1_000,
        "policy_learning_rate": 3e-4,
        "temperature": 0.1,
        "steps": 10_000,
    },
}
# The paper's comparison without an ensemble: one Q-function, which only alpha holds to the data.
PRESETS |= {
    "no-ensemble": {**PRESETS["paper-antmaze"], "ensemble": "none"},
    "small-no-ensemble": {**PRESETS["small"], "ensemble": "none"},
}
