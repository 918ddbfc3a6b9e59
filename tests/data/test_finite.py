"""Actions that are a choice among a few are recognised, and refused where a policy would mix them."""

from pathlib import Path

import numpy as np
import pytest

from chary.data import finite
from chary.data.dataset import Dataset
from chary.errors import CharyError
from chary.training.start import train

RNG = np.random.default_rng(0)
SIZE = 600


def kinds(actions: np.ndarray) -> list[str]:
    return [choice.kind for choice in finite.choices_in(actions.astype(np.float32))]


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (RNG.integers(0, 4, (SIZE, 1)), ["codes"]),
        (RNG.integers(1, 19, (SIZE, 1)), ["codes"]),
        (RNG.choice([-0.5, 0.1, 2.5], (SIZE, 1)), ["values"]),
        (np.eye(5)[RNG.integers(0, 5, SIZE)], ["one-hot"]),
        (RNG.integers(0, 2, (SIZE, 3)), ["codes"] * 3),
        (RNG.uniform(-1, 1, (SIZE, 2)), []),
        (np.rint(RNG.uniform(0, 100, (SIZE, 1))), []),  # whole percents are amounts
        (np.zeros((SIZE, 2)), []),  # never changes: another finding
        (RNG.integers(0, 4, (30, 1)), []),  # too few rows to say
    ],
)
def test_choices_are_recognised(actions: np.ndarray, expected: list[str]) -> None:
    assert kinds(actions) == expected


def test_a_value_that_comes_late_counts() -> None:
    actions = np.zeros((finite.LOOKED_AT + 1000, 1), np.float32)
    actions[::2] = 1.0
    actions[-500:, 0] = np.linspace(0, 1, 500)
    assert kinds(actions) == []


def a_dataset(actions: np.ndarray) -> Dataset:
    size = len(actions)
    return Dataset.from_columns(
        {
            "observations": RNG.standard_normal((size, 2)),
            "actions": actions,
            "rewards": RNG.standard_normal(size),
            "terminals": np.zeros(size, bool),
            "timeouts": np.arange(size) % 50 == 49,
        },
        name="switches",
        action_low=0.0,
        action_high=3.0,
        action_names=["gear"],
    )


def test_training_refuses_codes_unless_the_user_insists(tmp_path: Path) -> None:
    dataset = a_dataset(RNG.integers(0, 4, (SIZE, 1)))
    tiny = {"steps": 4, "batch_size": 8, "hidden": (8,)}
    with pytest.raises(CharyError) as caught:
        train("bc", dataset, run=tmp_path / "run", **tiny)
    message = str(caught.value)
    assert "'gear' takes only 4 values: 0, 1, 2, 3 (integer codes)" in message
    assert "any number between the bounds" in message and "--allow-finite-actions" in message
    assert not (tmp_path / "run").exists()
    agent = train("bc", dataset, run=tmp_path / "run", allow_finite_actions=True, **tiny)
    assert agent.act(dataset.observations[:2]).shape == (2, 1)


def test_a_mixed_action_is_trained() -> None:
    actions = np.stack([RNG.integers(0, 2, SIZE), RNG.uniform(-1, 1, SIZE)], axis=1)
    choices = finite.choices_in(actions)
    assert len(choices) == 1 and not finite.is_finite_set(actions, choices)
    finite.refuse("mixed", actions, ())
