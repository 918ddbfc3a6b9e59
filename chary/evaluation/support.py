"""Whether an action is one that the data has: its distance from the actions logged in similar states."""

from typing import NamedTuple

import numpy as np

from chary.data.neighbours import nearest

NEIGHBOURS = 16
"""Logged states, the nearest to a state, whose actions count as taken there."""
LOGGED = 50_000
"""Rows, evenly spaced, that are searched for them."""
INSIDE = 0.95
"""Share of logged actions, not among those searched, that count as inside the data."""


class Support(NamedTuple):
    """States, and the actions that the data has around each of them."""

    actions: np.ndarray
    """(state, neighbour, action): those of the nearest logged states."""
    limit: float
    """Distance beyond which an action is outside the data."""

    def distances(self, actions: np.ndarray) -> np.ndarray:
        """From one action in each state to the nearest that the data has there."""
        return np.linalg.norm(self.actions - actions[:, None], axis=-1).min(axis=1)

    def outside(self, actions: np.ndarray) -> np.ndarray:
        """Whether each state's action lies outside the data."""
        return self.distances(actions) > self.limit


def support_of(
    logged: tuple[np.ndarray, np.ndarray], held_out: tuple[np.ndarray, np.ndarray]
) -> Support:
    """What the logged pairs say of the states of held-out pairs; actions are in [-1, 1].

    The limit is the distance within which 95% of the held-out actions lie themselves.
    """
    every = max(1, len(logged[0]) // LOGGED)
    states, actions = (np.asarray(x[::every], np.float32) for x in logged)
    centre, scale = states.mean(axis=0), states.std(axis=0)
    scale = np.where(scale < 1e-6, 1.0, scale)
    asked = (np.asarray(held_out[0]) - centre) / scale
    near = nearest((states - centre) / scale, asked, NEIGHBOURS)
    found = Support(actions[near], 0.0)
    limit = float(np.quantile(found.distances(np.asarray(held_out[1])), INSIDE))
    return found._replace(limit=limit)
