"""chary: offline reinforcement learning that knows where the data ends.

import chary

dataset = chary.load("pointmaze-umaze")
agent = chary.train("msg", dataset, steps=4_000, run="runs/first")
actions = agent.act(dataset.observations[:5])
print(agent.uncertainty(dataset.observations[:5], actions).lcb)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chary import moved
from chary.errors import CharyError
from chary.version import __version__

if TYPE_CHECKING:
    from chary.data import load
    from chary.data.dataset import Dataset
    from chary.data.memory import dataset, from_frame
    from chary.evaluation.agent import Agent, Decision, Uncertainty
    from chary.evaluation.rollouts import EvalResult
    from chary.host.importing import trust_code
    from chary.training.finetune import finetune, train_online
    from chary.training.start import open_run, resume, train, train_population

__all__ = [
    "Agent",
    "CharyError",
    "Dataset",
    "Decision",
    "EvalResult",
    "Uncertainty",
    "__version__",
    "dataset",
    "finetune",
    "from_frame",
    "load",
    "open_run",
    "resume",
    "train",
    "train_online",
    "train_population",
    "trust_code",
]

moved.install()

# Imported when first used: `chary --help` must not wait for JAX.
_HOMES = {
    "Agent": "chary.evaluation.agent",
    "Decision": "chary.evaluation.agent",
    "Uncertainty": "chary.evaluation.agent",
    "Dataset": "chary.data.dataset",
    "EvalResult": "chary.evaluation.rollouts",
    "dataset": "chary.data.memory",
    "finetune": "chary.training.finetune",
    "from_frame": "chary.data.memory",
    "load": "chary.data",
    "open_run": "chary.training.start",
    "resume": "chary.training.start",
    "train": "chary.training.start",
    "train_online": "chary.training.finetune",
    "train_population": "chary.training.start",
    "trust_code": "chary.host.importing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'chary' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
