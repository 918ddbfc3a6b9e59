"""Checks that the author of an algorithm or an ensemble can run on it, in a test or by hand.

    from chary.testing import check_algorithm, check_ensemble

    def test_awac():
        check_algorithm("awac:AWAC")

Each check that fails raises AssertionError with what was expected; errors of the checked code come as
they are, with their traceback.
"""

import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chary import algos
from chary import config as settings
from chary.data.dataset import Dataset
from chary.ensembles import EnsembleShape, make_ensemble
from chary.training.start import open_run, resume, train
from chary.types import Algorithm, Batch

OBSERVATION, ACTION, BATCH = 3, 2, 8


def small_data(episodes: int = 4, length: int = 12, seed: int = 0) -> Dataset:
    """A few random transitions, half of whose episodes truly end."""
    random = np.random.default_rng(seed)
    size = episodes * length
    ends = np.arange(size) % length == length - 1
    true_ends = ends & ((np.arange(size) // length) % 2 == 0)
    columns = {
        "observations": random.standard_normal((size, OBSERVATION)),
        "actions": random.uniform(-1, 1, (size, ACTION)),
        "rewards": random.standard_normal(size),
        "next_observations": random.standard_normal((size, OBSERVATION)),
        "terminals": true_ends,
        "timeouts": ends & ~true_ends,
    }
    return Dataset.from_columns(columns, name="small")


def check_algorithm(name: str, **changes: Any) -> None:
    """Whether an algorithm (`module:Name`) is one: its settings, functions, bits, and runs.

    `changes` are settings for the check; networks should be small.
    """
    entry = algos.entry(name)
    config = entry.config(**{"batch_size": BATCH, **changes})
    again = settings.from_json(entry.config, settings.to_json(config))
    assert again == config, "settings must survive JSON: numbers, text, tuples, None"
    for preset, values in entry.presets.items():
        settings.apply(values, config, settings_of_a_run(), source=f"preset {preset}")
    made = algos.build(name, config, OBSERVATION, ACTION)
    _check_functions(made, small_data())
    _check_runs(name, {"batch_size": BATCH, **changes})


def check_ensemble(name: str, members: int = 3) -> None:
    """Whether an ensemble (`module:Name`) gives what is asked of it, and trains and resumes in MSG."""
    shape = EnsembleShape(members, 1, OBSERVATION, ACTION, (8,), layer_norm=False)
    made = make_ensemble(name, shape)
    first, second = (made.init(jax.random.key(seed)) for seed in (0, 1))
    assert _bits(first) != _bits(second), "init must depend on its key"
    small = {"members": members, "hidden": (8,), "batch_size": BATCH, "warmup_steps": 0}
    _check_runs("msg", {"ensemble": name, **small})


def settings_of_a_run() -> Any:
    """What presets may also set."""
    from chary.training.run_config import RunConfig

    return RunConfig()


def _check_functions(made: Algorithm[Any], dataset: Dataset) -> None:
    batch = _batch(made, dataset)
    state = made.init(jax.random.key(0))
    shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state)
    after, metrics = jax.jit(made.update)(state, batch, jax.random.key(1))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), after) == shapes, (
        "an update must give a state of the same shapes and types"
    )
    for metric, value in metrics.items():
        assert jnp.shape(value) == (), f"metric {metric} must be one number"
        assert jnp.isfinite(value), f"metric {metric} is {value}"
    same, _ = jax.jit(made.update)(state, batch, jax.random.key(1))
    assert _bits(same) == _bits(after), "the same state, batch and key must give the same bits"
    assert _bits(after) != _bits(state), "an update must learn something"
    mode = made.act(after, batch.observations)
    assert mode.shape == (BATCH, ACTION), f"act must give {(BATCH, ACTION)}, not {mode.shape}"
    assert bool((jnp.abs(mode) <= 1.0).all()), "actions must lie in [-1, 1]"
    assert _bits(mode) == _bits(made.act(after, batch.observations)), "the mode must not be random"
    drawn = made.act(after, batch.observations, key=jax.random.key(2))
    assert drawn.shape == mode.shape and bool((jnp.abs(drawn) <= 1.0).all())
    if made.values is not None:
        assert made.beta is not None, "an algorithm with values has a beta"
        values = made.values(after, batch.observations, batch.actions)
        assert values.ndim == 2 and values.shape[1] == BATCH, "values must be (member, batch)"
        assert jnp.shape(made.beta(after)) == ()


def _batch(made: Algorithm[Any], dataset: Dataset) -> Batch:
    from chary.data.scaling import RewardTransform, Scaling

    scaling = Scaling.of(dataset, RewardTransform(), normalise_observations="none")
    wants = {"next_actions": made.wants_next_actions, "returns": made.wants_returns}
    return dataset.transitions(scaling, np.arange(BATCH), **wants)


def _check_runs(name: str, changes: dict[str, Any]) -> None:
    """Trained at once, and trained, killed and resumed: the same bits."""
    quick: dict[str, Any] = {"log_every": 5, "eval_every": 0, "final_episodes": 0, **changes}
    dataset = small_data()
    with tempfile.TemporaryDirectory() as folder:
        whole = train(name, dataset, run=Path(folder) / "whole", steps=10, preset="none", **quick)
        train(name, dataset, run=Path(folder) / "cut", steps=5, preset="none", **quick)
        cut = resume(Path(folder) / "cut", dataset=dataset, steps=10)
        assert _bits(cut.state) == _bits(whole.state), "a resumed run must end in the same bits"
        opened = open_run(Path(folder) / "whole")
        rows = dataset.observations[:4]
        assert np.array_equal(opened.act(rows), whole.act(rows)), "a run must open as it was"


def _bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]
