"""The task that a dataset belongs to, by name: chary's own, or one that the dataset brings along."""

from chary import envs
from chary.envs import Task


def find_task(name: str) -> Task | None:
    """The task of that name, if there is a simulator for it."""
    from chary.data.sources import minari_env

    return envs.find_task(name) or minari_env.find(name)
