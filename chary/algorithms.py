"""The names of the algorithms, with a few words on each: known without waiting for JAX.

Besides those here there are algorithms of others: `module:Name`, and names that installed packages bring
along as entry points.
"""

from functools import cache

from chary.errors import unknown_name

GROUP = "chary.algorithms"
"""Entry points of this group are algorithms: a name, and the module:Name of a `chary.algos.Entry`."""

SUMMARIES = {
    "msg": "MSG: Q-functions with independent targets, lower confidence bound (Ghasemipour et al. 2022)",
    "bc": "behavioural cloning",
    "iql": "Implicit Q-Learning (Kostrikov, Nair and Levine 2021)",
    "cql": "Conservative Q-Learning (Kumar et al. 2020)",
    "crr": "Critic-Regularised Regression (Wang et al. 2020)",
    "fbrc": "Fisher-BRC (Kostrikov et al. 2021)",
    "sac-n": "Soft Actor-Critic with the minimum of N critics (An et al. 2021)",
    "edac": "Ensemble-Diversified Actor-Critic (An et al. 2021)",
    "rem": "Random Ensemble Mixture (Agarwal, Schuurmans and Norouzi 2020)",
    "td3-bc": "TD3+BC (Fujimoto and Gu 2021)",
    "rebrac": "ReBRAC (Tarasov et al. 2023)",
    "fql": "Flow Q-Learning (Park, Li and Levine 2025)",
}


@cache
def installed(group: str = GROUP) -> dict[str, str]:
    """What installed packages bring along, algorithms or another group: module:Name, by its name."""
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=group)}


def is_algorithm(name: str) -> bool:
    """Whether there is an algorithm of that name, or one of the user's own is named."""
    return name in SUMMARIES or ":" in name or name in installed()


def check_algorithm(name: str) -> None:
    """Refuse a name that no algorithm has."""
    if not is_algorithm(name):
        advice = "One of your own is named by module:Name, such as mine:AWAC."
        raise unknown_name("algorithm", name, [*SUMMARIES, *installed()], advice)


def summary(name: str) -> str:
    """A few words on an algorithm."""
    return SUMMARIES.get(name, f"of {installed().get(name, name).partition(':')[0]}")
