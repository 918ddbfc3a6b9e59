"""Algorithms with one policy and at most two critics."""

from tests.algos.sources.base import (
    CENTRED,
    LESS_ONE,
    SAC,
    SMALL,
    SMALL_NETWORKS,
    Source,
    long_run,
)

BC_LONG = Source("nobody's: as long as IQL's", long_run(1_000_000))
BC = {
    "defaults": Source(
        "nobody's: MSG's policy network and batches, SAC's step size",
        {
            "hidden": (256, 256, 256),
            "batch_size": 256,
            "learning_rate": 3e-4,
            "loss": "likelihood",
        },
    ),
    **dict.fromkeys(("paper-antmaze", "paper-gym", "paper-maze2d", "paper-rlu"), BC_LONG),
    "small": Source(
        "docs/algorithms/bc.md",
        {"hidden": (64, 64, 64), "learning_rate": 1e-3, "steps": 10_000},
    ),
}

IQL = {
    "defaults": Source(
        "ikostrikov/implicit_q_learning: mujoco_config.py, train_offline.py, learner.py, actor.py",
        {
            "hidden": (256, 256),
            "layer_norm": False,
            "batch_size": 256,
            "discount": 0.99,
            "critic_learning_rate": 3e-4,
            "policy_learning_rate": 3e-4,
            "tau": 0.005,
            "expectile": 0.7,
            "inverse_temperature": 3.0,
            "weight_limit": 100.0,
            "policy_decay_steps": 1_000_000,
        },
    ),
    "paper-antmaze": Source(
        "antmaze_config.py, train_offline.py",
        long_run(1_000_000, expectile=0.9, inverse_temperature=10.0, **LESS_ONE),
    ),
    "paper-gym": Source("train_offline.py: normalize", long_run(1_000_000, return_range=1000.0)),
    "paper-maze2d": Source("not in the paper", long_run(1_000_000)),
    "paper-rlu": Source("not in the paper", long_run(1_000_000)),
    "small": Source(
        SMALL,
        {
            **SMALL_NETWORKS,
            "expectile": 0.9,
            "inverse_temperature": 10.0,
            "critic_learning_rate": 1e-3,
            "policy_learning_rate": 1e-3,
            "policy_decay_steps": 8_000,
        },
    ),
}

CQL_OF_MSG = {
    "policy_learning_rate": 3e-5,
    "temperature_learning_rate": 3e-4,
    "gap_next_actions": False,
    "gap_over_critics": "mean",
    "warmup_steps": 50_000,
    "warmup_entropy": False,
}
CQL = {
    "defaults": Source(
        "aviralkumar2907/CQL: the README's command, cql_mujoco_new.py, rlkit/torch/sac/cql.py",
        {
            "hidden": (256, 256, 256),
            "layer_norm": False,
            "batch_size": 256,
            "discount": 0.99,
            "critic_learning_rate": 3e-4,
            "policy_learning_rate": 1e-4,
            "tau": 0.005,
            "temperature": 1.0,
            "temperature_learning_rate": 1e-4,
            "target_entropy": "auto",  # minus the number of action dimensions
            "alpha": 5.0,
            "lagrange_threshold": None,
            "samples": 10,
            "gap_next_actions": True,
            "gap_over_critics": "sum",
            "max_backup": False,
            "warmup_steps": 40_000,
            "warmup_entropy": True,
        },
    ),
    "paper-antmaze": Source(
        "cql_antmaze_new.py and the README's command for it",
        long_run(3_000_000, lagrange_threshold=5.0, **CENTRED),
    ),
    "paper-gym": Source("cql_mujoco_new.py: 3,000 epochs of 1,000", long_run(3_000_000)),
    "paper-maze2d": Source("not in the repository", long_run(3_000_000)),
    "paper-rlu": Source("not in the repository", long_run(3_000_000)),
    "msg-paper-antmaze": Source(
        "jrl/agents/cql: config.py, learning.py; Appendix B.1 of the MSG paper",
        long_run(2_000_000, **CQL_OF_MSG, **CENTRED),
    ),
    "msg-paper-gym": Source(
        "jrl/agents/cql: config.py, learning.py; Appendix A.1 of the MSG paper",
        long_run(3_000_000, **CQL_OF_MSG),
    ),
    "small": Source(
        SMALL,
        {
            **SMALL_NETWORKS,
            "alpha": 0.2,
            "samples": 4,
            "temperature": 0.1,
            "warmup_steps": 500,
        },
    ),
}

CRR_LONG = Source("not in the paper", long_run(1_000_000))
CRR = {
    "defaults": Source(
        "google-deepmind/acme: agents/jax/crr/config.py, losses.py, networks.py",
        {
            "hidden": (256, 256),
            "layer_norm": False,
            "batch_size": 256,
            "discount": 0.99,
            "critic_learning_rate": 3e-4,
            "policy_learning_rate": 3e-4,
            "tau": 1.0,
            "target_period": 100,
            "weights": "exp",
            "advantage": "mean",
            "samples": 4,
            "beta": 1.0,
            "weight_limit": 20.0,
        },
    ),
    **dict.fromkeys(("paper-antmaze", "paper-gym", "paper-maze2d", "paper-rlu"), CRR_LONG),
    "small": Source(
        SMALL,
        {
            **SMALL_NETWORKS,
            "target_period": 1,
            "critic_learning_rate": 1e-3,
            "policy_learning_rate": 1e-3,
        },
    ),
}

FBRC_ANTMAZE = long_run(3_000_000, **CENTRED)
FBRC = {
    "defaults": Source(
        "google-research/fisher_brc: fisher_brc.py, behavioral_cloning.py, train_eval_offline.py",
        {
            **SAC,
            "fisher_weight": 0.1,
            "warmup_steps": 1_000_000,
            "behaviour_hidden": (256, 256),
            "behaviour_parts": 5,
            "behaviour_learning_rate": 1e-3,
        },
    ),
    "paper-gym": Source(
        "train_eval_offline.py: reward_bonus of 5, a million steps after a million",
        long_run(2_000_000, reward_scale=1.0, reward_shift=5.0),
    ),
    "msg-paper-antmaze": Source("Appendix B.1 of the MSG paper: 1M and 2M", FBRC_ANTMAZE),
    "msg-paper-gym": Source("Appendix A.1 of the MSG paper: 1M and 3M", long_run(4_000_000)),
    "paper-antmaze": Source("not in the code: as the MSG paper ran it", FBRC_ANTMAZE),
    "paper-maze2d": Source("not in the code", long_run(2_000_000)),
    "paper-rlu": Source("not in the code", long_run(2_000_000)),
    "small": Source(
        SMALL,
        {
            **SMALL_NETWORKS,
            "reward_scale": 40.0,
            "reward_shift": -0.5,
            "behaviour_hidden": (64, 64, 64),
            "critic_learning_rate": 1e-3,
            "policy_learning_rate": 1e-4,
            "temperature": 0.1,
            "warmup_steps": 2_000,
        },
    ),
}

TD3 = {
    "hidden": (256, 256),
    "layer_norm": False,
    "batch_size": 256,
    "discount": 0.99,
    "critic_learning_rate": 3e-4,
    "policy_learning_rate": 3e-4,
    "tau": 0.005,
    "policy_noise": 0.2,
    "noise_clip": 0.5,
    "policy_delay": 2,
}
TD3_BC = {
    "defaults": Source("sfujim/TD3_BC: main.py, TD3_BC.py", {**TD3, "alpha": 2.5}),
    "paper-antmaze": Source(
        "tinkoff-ai/CORL: configs/offline/td3_bc/antmaze (normalize, normalize_reward)",
        long_run(1_000_000, normalise_observations="moments", **LESS_ONE),
    ),
    "paper-gym": Source("main.py", long_run(1_000_000, normalise_observations="moments")),
    "paper-maze2d": Source(
        "not in the paper", long_run(1_000_000, normalise_observations="moments")
    ),
    "paper-rlu": Source("not in the paper", long_run(1_000_000, normalise_observations="moments")),
    "small": Source(SMALL, {**SMALL_NETWORKS, "alpha": 40.0, "normalise_observations": "moments"}),
}

REBRAC = {
    "defaults": Source(
        "tinkoff-ai/CORL: configs/offline/rebrac/hopper/medium_v2.yaml, by the authors",
        {
            **TD3,
            "hidden": (256, 256, 256),
            "layer_norm": True,
            "batch_size": 1024,
            "critic_learning_rate": 1e-3,
            "policy_learning_rate": 1e-3,
            "policy_penalty": 0.01,
            "critic_penalty": 0.01,
        },
    ),
    "paper-antmaze": Source(
        "the same: antmaze/large_play_v2.yaml; normalize_reward is 100 r",
        long_run(
            1_000_000,
            discount=0.999,
            batch_size=256,
            critic_learning_rate=5e-5,
            policy_learning_rate=3e-4,
            policy_penalty=0.002,
            critic_penalty=0.001,
            reward_scale=100.0,
            reward_shift=0.0,
        ),
    ),
    "paper-gym": Source("the same: hopper/medium_v2.yaml", long_run(1_000_000)),
    "paper-maze2d": Source(
        "the same: maze2d/medium_v1.yaml",
        long_run(
            1_000_000,
            batch_size=256,
            critic_learning_rate=3e-4,
            policy_learning_rate=3e-4,
            policy_penalty=0.003,
            critic_penalty=0.001,
        ),
    ),
    "paper-rlu": Source("not in the paper", long_run(1_000_000)),
    "small": Source(
        SMALL,
        {
            **SMALL_NETWORKS,
            "normalise_observations": "moments",
            "batch_size": 256,
            "critic_learning_rate": 3e-4,
            "policy_learning_rate": 3e-4,
        },
    ),
}

FQL_OTHER = Source(
    "the README's advice for new tasks", long_run(500_000, normalise_q=True, alpha=1.0)
)
FQL = {
    "defaults": Source(
        "seohongpark/fql: agents/fql.py, the README's commands",
        {
            "hidden": (512, 512, 512, 512),
            "layer_norm": True,
            "batch_size": 256,
            "discount": 0.99,
            "critic_learning_rate": 3e-4,
            "policy_learning_rate": 3e-4,
            "tau": 0.005,
            "alpha": 10.0,
            "flow_steps": 10,
            "aggregate": "mean",
            "normalise_q": False,
        },
    ),
    "paper-antmaze": Source("the README's commands for D4RL", long_run(500_000, **LESS_ONE)),
    **dict.fromkeys(("paper-gym", "paper-maze2d", "paper-rlu"), FQL_OTHER),
    "small": Source(
        SMALL,
        {
            **SMALL_NETWORKS,
            "normalise_observations": "moments",
            "normalise_q": True,
            "alpha": 0.03,
            "critic_learning_rate": 1e-3,
        },
    ),
}
