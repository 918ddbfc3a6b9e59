"""How a policy acts while it is evaluated: by its mode, by samples, or by the best of several.

    mode       a = act(s)             the policy's mode, the same action in the same state
    sample     a = act(s, key)        a draw from the policy
    best-of-K  a = argmax_k LCB(s, a_k),  a_k ~ pi(s)      the draw with the largest bound
    both       two evaluations from the same starts: the mode's numbers come first, those of samples
               beside them, as `sampled`

The key of a sample comes from (seed, step, episode, time), so an action does not depend on how many
episodes run side by side, or on which of them are over. Another way of acting is another `Acting`.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from chary.errors import CharyError


class Acting(NamedTuple):
    """One way of acting."""

    name: str
    """What the log calls it."""
    words: str
    """What people call it: policies act by ..."""
    choose: Callable[[Any, Any, Any, Any], Any]
    """`choose(algorithm, state, observation, key)`: an action in [-1, 1] for one observation, in the
    learner's units. It is compiled, and has a key of its own for every episode and time."""


def _mode(algorithm: Any, state: Any, observation: Any, key: Any) -> Any:
    del key  # one action a state
    return algorithm.act(state, observation[None])[0]


def _sample(algorithm: Any, state: Any, observation: Any, key: Any) -> Any:
    return algorithm.act(state, observation[None], key=key)[0]


@cache  # a compiled program knows a way of acting by its function
def best_of(draws: int) -> Acting:
    """The draw with the largest lower confidence bound, of so many."""

    def choose(algorithm: Any, state: Any, observation: Any, key: Any) -> Any:
        import jax.numpy as jnp

        from chary.networks.targets import lower_confidence_bound

        if algorithm.values is None or algorithm.beta is None:
            raise CharyError(
                f"--act best-of-{draws}: this algorithm has no critics to choose the best by."
            )
        observations = jnp.broadcast_to(observation, (draws, *observation.shape))
        actions = algorithm.act(state, observations, key=key)
        values = algorithm.values(state, observations, actions)
        return actions[jnp.argmax(lower_confidence_bound(values, algorithm.beta(state)))]

    return Acting(f"best-of-{draws}", f"the best of {draws} samples", choose)


MODE = Acting("mode", "their mode", _mode)
SAMPLE = Acting("sample", "samples", _sample)


class Ways(NamedTuple):
    """What one evaluation measures."""

    main: Acting
    """Gives the numbers that rank a run."""
    sampled: Acting | None = None
    """Gives the numbers beside them, if any."""


WAYS = {"mode": Ways(MODE), "sample": Ways(SAMPLE), "both": Ways(MODE, SAMPLE)}


def resolve(act: str) -> Ways:
    """What a value of `--act` asks for."""
    if act in WAYS:
        return WAYS[act]
    found = re.fullmatch(r"best-of-([1-9]\d{0,3})", act)
    if found is None:
        raise CharyError(
            f"--act is '{act}', but must be mode, sample, both, or best-of-N such as best-of-32."
        )
    return Ways(best_of(int(found[1])))
