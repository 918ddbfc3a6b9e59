"""The names of the algorithms, with a few words on each: known without waiting for JAX."""

from chary.errors import unknown_name

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


def check_algorithm(name: str) -> None:
    """Refuse a name that no algorithm has."""
    if name not in SUMMARIES:
        raise unknown_name("algorithm", name, SUMMARIES)
