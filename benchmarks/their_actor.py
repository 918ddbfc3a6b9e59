"""d3rlpy's SAC actor, untrained, as it exports it: with scalers, as ONNX.

    .venv-d3rlpy/bin/python benchmarks/their_actor.py actor.onnx 17 6 256 256 256

Runs in d3rlpy's own environment, which needs onnx and onnxscript beside it.
"""

import sys
from functools import partial

import d3rlpy  # pyright: ignore[reportMissingImports]
import numpy as np
import structlog  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]
from d3rlpy.models import VectorEncoderFactory  # pyright: ignore[reportMissingImports]
from d3rlpy.preprocessing import (  # pyright: ignore[reportMissingImports]
    MinMaxActionScaler,
    StandardObservationScaler,
)

# d3rlpy hands over a traced function, which torch's newer exporter does not take.
torch.onnx.export = partial(torch.onnx.export, dynamo=False)
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def main(out: str, observations: int, actions: int, *hidden: int) -> None:
    algorithm = d3rlpy.algos.SACConfig(
        actor_encoder_factory=VectorEncoderFactory(list(hidden)),
        observation_scaler=StandardObservationScaler(np.zeros(observations), np.ones(observations)),
        action_scaler=MinMaxActionScaler(-np.ones(actions), np.ones(actions)),
    ).create(device="cpu")
    algorithm.create_impl((observations,), actions)
    algorithm.save_policy(out)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
