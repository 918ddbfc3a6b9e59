"""d3rlpy's algorithms with our settings: made here, trained on arrays, kept as plain weights.

    .venv-d3rlpy/bin/python benchmarks/theirs.py '{"algorithm": "iql", "settings": {...}, ...}'

Runs in d3rlpy's own environment, where chary is not installed. It is given the transitions as ours
learns from them, already scaled, and leaves the policy's layers in an npz archive.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import d3rlpy  # pyright: ignore[reportMissingImports]
import numpy as np
import structlog  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]
from d3rlpy.dataset import TransitionMiniBatch  # pyright: ignore[reportMissingImports]
from d3rlpy.models import VectorEncoderFactory  # pyright: ignore[reportMissingImports]
from d3rlpy.optimizers import AdamFactory  # pyright: ignore[reportMissingImports]
from d3rlpy.optimizers.lr_schedulers import (  # pyright: ignore[reportMissingImports]
    CosineAnnealingLRFactory,
)

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def make(algorithm: str, ours: dict[str, Any], sizes: tuple[int, int]) -> Any:
    """d3rlpy's algorithm with the settings that ours has; what has no counterpart stays its default."""
    network = VectorEncoderFactory(list(ours["hidden"]))
    if algorithm == "bc":
        config = d3rlpy.algos.BCConfig(
            batch_size=ours["batch_size"],
            learning_rate=ours["learning_rate"],
            encoder_factory=network,
        )
    else:
        common = {
            "batch_size": ours["batch_size"],
            "gamma": ours["discount"],
            "actor_learning_rate": ours["policy_learning_rate"],
            "critic_learning_rate": ours["critic_learning_rate"],
            "actor_encoder_factory": network,
            "critic_encoder_factory": network,
        }
        config = {"cql": _cql, "iql": _iql, "crr": _crr, "td3-bc": _td3_bc}[algorithm](ours, common)
    made = config.create(device="cpu:0")
    made.create_impl((sizes[0],), sizes[1])
    return made


def _cql(ours: dict[str, Any], common: dict[str, Any]) -> Any:
    # Its multiplier of the gap starts at 1 and stays there without a step size of its own.
    return d3rlpy.algos.CQLConfig(
        **common,
        tau=ours["tau"],
        temp_learning_rate=ours["temperature_learning_rate"],
        initial_temperature=ours["temperature"],
        alpha_learning_rate=0.0,
        conservative_weight=ours["alpha"],
        n_action_samples=ours["samples"],
    )


def _iql(ours: dict[str, Any], common: dict[str, Any]) -> Any:
    if ours["policy_decay_steps"]:
        decay = CosineAnnealingLRFactory(T_max=ours["policy_decay_steps"])
        common["actor_optim_factory"] = AdamFactory(lr_scheduler_factory=decay)
    return d3rlpy.algos.IQLConfig(
        **common,
        tau=ours["tau"],
        value_encoder_factory=common["critic_encoder_factory"],
        expectile=ours["expectile"],
        weight_temp=ours["inverse_temperature"],
        max_weight=ours["weight_limit"],
    )


def _crr(ours: dict[str, Any], common: dict[str, Any]) -> Any:
    return d3rlpy.algos.CRRConfig(
        **common,
        beta=ours["beta"],
        n_action_samples=ours["samples"],
        advantage_type=ours["advantage"],
        weight_type=ours["weights"],
        max_weight=ours["weight_limit"],
        n_critics=2,
        target_update_type="hard" if ours["tau"] == 1.0 else "soft",
        target_update_interval=ours["target_period"],
        tau=ours["tau"],
    )


def _td3_bc(ours: dict[str, Any], common: dict[str, Any]) -> Any:
    return d3rlpy.algos.TD3PlusBCConfig(
        **common,
        tau=ours["tau"],
        alpha=ours["alpha"],
        target_smoothing_sigma=ours["policy_noise"],
        target_smoothing_clip=ours["noise_clip"],
        update_actor_interval=ours["policy_delay"],
    )


def batches(arrays: dict[str, np.ndarray], size: int, seed: int) -> Iterator[TransitionMiniBatch]:
    """Random transitions, cut straight from the arrays: d3rlpy's own buffer would be slower, and would
    leave out the last step of every episode that was cut."""
    rng = np.random.default_rng(seed)
    ones = np.ones((size, 1), np.float32)
    while True:
        rows = rng.integers(len(arrays["rewards"]), size=size)
        actions = arrays["actions"][rows]
        yield TransitionMiniBatch(
            observations=arrays["observations"][rows],
            actions=actions,
            rewards=arrays["rewards"][rows, None],
            next_observations=arrays["next_observations"][rows],
            next_actions=actions,  # none of these algorithms looks at them
            terminals=1.0 - arrays["discounts"][rows, None],
            intervals=ones,
            transitions=[],
        )


def layers(made: Any) -> dict[str, np.ndarray]:
    """The policy's weights, layer after layer, up to what tanh is taken of."""
    state = made.impl.policy.state_dict()
    kept = [name for name in state if name.startswith("_encoder") and name.endswith("weight")]
    kept.append("_mu.weight" if "_mu.weight" in state else "_fc.weight")
    return {
        f"{number}/{part}": state[name.replace("weight", part)].numpy()
        for number, name in enumerate(kept)
        for part in ("weight", "bias")
    }


def main() -> None:
    order = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    d3rlpy.seed(order["seed"])
    with np.load(order["transitions"]) as file:
        arrays = dict(file)
    sizes = arrays["observations"].shape[1], arrays["actions"].shape[1]
    made = make(order["algorithm"], order["settings"], sizes)
    source = batches(arrays, order["settings"]["batch_size"], order["seed"])
    for _ in range(order["steps"]):
        made.update(next(source))
    np.savez(Path(order["policy"]), allow_pickle=False, **layers(made))


if __name__ == "__main__":
    main()
