"""MSG and the other ensembles."""

from tests.algos.sources.base import (
    AS_LOGGED,
    CENTRED,
    SAC,
    SMALL,
    SMALL_NETWORKS,
    Source,
    long_run,
)

# Evaluations by mode and samples: the authors' code samples, the paper does not say.
PAPER = {"regulariser_samples": "own", "act": "both"}
MSG_ANTMAZE = long_run(2_000_000, alpha=0.5, **PAPER, **CENTRED)
MSG_SMALL = {
    **SMALL_NETWORKS,
    "members": 8,
    "warmup_steps": 500,
    "policy_learning_rate": 1e-4,
    "temperature": 0.1,
}
MSG = {
    "defaults": Source(
        "jrl/agents/msg: config.py, learning.py, the README's command; beta and alpha are of the "
        "paper's search; shared samples are chary's own",
        {
            "members": 64,
            "beta": -4.0,
            "alpha": 0.1,
            "regulariser_samples": "shared",
            "ensemble": "deep",
            "targets": "independent",
            "hidden": (256, 256, 256),
            "layer_norm": False,
            "mimo_repetition": 0.5,
            "batch_size": 256,
            "discount": 0.99,
            "critic_learning_rate": 3e-4,
            "policy_learning_rate": 3e-5,
            "tau": 0.005,
            "random_weights": True,
            "warmup_steps": 50_000,
            "entropy": "tuned",
            "temperature": 1.0,
            "temperature_learning_rate": 3e-4,
            "target_entropy": "auto",  # minus the number of actions
            "double_q": "mean",
            "next_actions": "own",
            "min_over": "members",  # the paper's words; the code's is the batch
            "bound": "state",
            "ddof": None,  # 1 for multi-head and MIMO, 0 for others
            "member_rows": "auto",  # divided among the members of batch ensembles
            "act": "mode",
        },
    ),
    "own-data": Source(
        "tried: docs/heating.md",
        {
            "members": 10,
            "hidden": (64, 64),
            "batch_size": 128,
            "tau": 0.01,
            "warmup_steps": 1_000,
            "policy_learning_rate": 3e-4,
            "temperature": 0.1,
            "steps": 10_000,
        },
    ),
    "antmaze-fast": Source(
        "tried: results/antmaze; layer norm, policy every second update and 3e-4 are ReBRAC's",
        {
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
            **CENTRED,
        },
    ),
    "paper-antmaze": Source("Table 1 and Appendix B.1; every member's own samples", MSG_ANTMAZE),
    "paper-gym": Source(
        "Appendix A.1, the README on use_double_q",
        long_run(3_000_000, alpha=0.5, targets="double-q", **PAPER),
    ),
    "paper-maze2d": Source("Table 1", long_run(2_000_000, **PAPER)),
    "paper-rlu": Source(
        "appendix on RL Unplugged: alpha of 0 or 0.5; Gym's steps",
        long_run(3_000_000, alpha=0.5, **PAPER),
    ),
    "no-ensemble": Source("Appendix B: N = 1", {**MSG_ANTMAZE, "ensemble": "none", "members": 1}),
    "small": Source("docs/msg.md", MSG_SMALL),
    "small-no-ensemble": Source("docs/msg.md", {**MSG_SMALL, "ensemble": "none", "members": 1}),
}

SMALL_SAC = {
    **SMALL_NETWORKS,
    "critic_learning_rate": 1e-3,
    "policy_learning_rate": 1e-4,
    "temperature": 0.1,
}
SAC_N = {
    "defaults": Source("snu-mllab/EDAC: run_scripts/sac.py", {**SAC, "members": 10}),
    "paper-antmaze": Source(
        "tinkoff-ai/CORL: configs/offline/sac_n/antmaze (normalize_reward: false)",
        long_run(3_000_000, members=25, **AS_LOGGED),
    ),
    "paper-gym": Source("the paper's appendix: halfcheetah", long_run(3_000_000)),
    "paper-hopper": Source("the paper's appendix", long_run(3_000_000, members=500)),
    "paper-walker2d": Source("the paper's appendix", long_run(3_000_000, members=20)),
    "paper-maze2d": Source(
        "tinkoff-ai/CORL: configs/offline/sac_n/maze2d", long_run(3_000_000, members=25)
    ),
    "paper-rlu": Source("not in the paper", long_run(3_000_000)),
    "small": Source(SMALL, {**SMALL_SAC, "members": 8}),
    "rlpd": Source(
        "Ball et al. 2023, antmaze: one of ten critics, layer norm, no entropy in the target",
        {"subset": 1, "backup_entropy": False, "layer_norm": True, "steps": 300_000},
    ),
    "rlpd-small": Source(
        f"{SMALL}; Ball et al. 2023 for the rest",
        {
            **SMALL_SAC,
            "members": 10,
            "subset": 2,
            "backup_entropy": False,
            "layer_norm": True,
        },
    ),
}

EDAC = {
    "defaults": Source(
        "snu-mllab/EDAC: run_scripts/sac.py; eta of the paper's appendix",
        {**SAC, "members": 10, "eta": 1.0},
    ),
    "paper-antmaze": Source(
        "tinkoff-ai/CORL: configs/offline/edac/antmaze (normalize_reward: false)",
        long_run(3_000_000, **AS_LOGGED),
    ),
    "paper-gym": Source("the paper's appendix: halfcheetah and walker2d", long_run(3_000_000)),
    "paper-hopper": Source("the paper's appendix", long_run(3_000_000, members=50)),
    "paper-maze2d": Source(
        "tinkoff-ai/CORL: configs/offline/edac/maze2d", long_run(3_000_000, eta=0.1)
    ),
    "paper-rlu": Source("not in the paper", long_run(3_000_000)),
    "small": Source(SMALL, {**SMALL_SAC, "members": 8}),
}

REM = {
    "defaults": Source(
        "the paper: 200 heads on one trunk; the rest is SAC-N's",
        {**SAC, "members": 200, "ensemble": "multihead"},
    ),
    "paper-antmaze": Source("not in the paper: MSG's rewards", long_run(3_000_000, **CENTRED)),
    "paper-gym": Source("not in the paper", long_run(3_000_000)),
    "paper-maze2d": Source("not in the paper", long_run(3_000_000)),
    "paper-rlu": Source("not in the paper", long_run(3_000_000)),
    "small": Source(SMALL, {**SMALL_SAC, "members": 64}),
}
