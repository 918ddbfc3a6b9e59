"""The names of the algorithms, with a few words on each: known without waiting for JAX."""

from chary.errors import unknown_name

SUMMARIES = {
    "msg": "ensemble lower confidence bound",
    "bc": "behavioural cloning",
    "iql": "the best actions in the data",
    "cql": "low values outside the data",
    "crr": "cloning of what the critics hold for good",
    "fbrc": "values that follow the behaviour's density",
    "sac-n": "the smallest of many critics",
    "edac": "the smallest of diversified critics",
    "rem": "random mixtures of critics",
    "td3-bc": "TD3 that stays close to the data",
    "rebrac": "TD3 whose policy and critics stay close to the data",
    "fql": "one step that does better than a flow",
}


def check_algorithm(name: str) -> None:
    """Refuse a name that no algorithm has."""
    if name not in SUMMARIES:
        raise unknown_name("algorithm", name, SUMMARIES)
