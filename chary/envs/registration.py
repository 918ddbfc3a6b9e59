"""Every task in Gymnasium's registry, as `chary/<name>`.

Importing this module registers them. Gymnasium can also import it by itself:
`gymnasium.make("chary.envs.registration:chary/antmaze-umaze-v2")`.
"""

from typing import Any

import gymnasium

from chary.envs import antmaze, find_task, locomotion, mazes


def make(task: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """The environment of a task by its name."""
    found = find_task(task)
    assert found is not None
    return found.make(**options)


def register_all() -> None:
    """Tell Gymnasium about every task; done again, it changes nothing."""
    for name in (*mazes.NAMES, *antmaze.NAMES, *locomotion.NAMES):
        if f"chary/{name}" not in gymnasium.registry:
            gymnasium.register(
                f"chary/{name}",
                entry_point="chary.envs.registration:make",
                kwargs={"task": name},
            )


register_all()
