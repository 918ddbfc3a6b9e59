"""Everything that the loop needs to train runs, refused here if they cannot be trained."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from chary import algos, track
from chary.data import finite
from chary.data.dataset import Dataset
from chary.data.scaling import RewardTransform, Scaling
from chary.envs import Task
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from chary.evaluation.inputs import UNNAMED, Names
from chary.evaluation.own_env import own_task
from chary.execution.batches import Feed, make_feed
from chary.execution.cost import cost_of
from chary.execution.processes import leader
from chary.execution.program import (
    Carry,
    initial_carry,
    keys,
    one_of,
    refuse_too_large,
    trace_update,
)
from chary.runs.folder import RunFolder
from chary.training.run_config import RunConfig, RunSpec
from chary.types import Algorithm, Batch

HOLDOUT_SEED = 0
"""Of the episodes that `holdout` keeps out, whatever the run's own seed."""


class Lane(NamedTuple):
    """One of the runs that a program trains side by side."""

    algorithm: Algorithm[Any]
    """With this run's own settings in its initial state."""
    discount: float | None
    run: RunConfig


class Plan(NamedTuple):
    """Everything that runs need besides their states; a run alone is one of one."""

    lanes: tuple[Lane, ...]
    """They differ in their seeds, their folders and the settings in their states, in nothing else."""
    title: str
    """What is trained, in a few words."""
    batch_size: int
    feed: Feed
    held_out: Batch | None
    scaling: Scaling
    task: Task | None
    names: Names = UNNAMED
    is_online: bool = False
    """Whether the runs also learn in their task."""

    @property
    def run(self) -> RunConfig:
        """What all runs have in common."""
        return self.lanes[0].run

    @property
    def algorithm(self) -> Algorithm[Any]:
        """The functions of one are those of all."""
        return self.lanes[0].algorithm

    @property
    def sizes(self) -> tuple[int, int]:
        """Of an observation and of an action."""
        return len(self.scaling.observation_mean), len(self.scaling.action_low)

    def initial_carries(self) -> list[Carry]:
        """Each run's own: of its seed, and with its continuous settings."""
        carries = [
            initial_carry(self.algorithm, self.batch_size, *self.sizes, seed=lane.run.seed)
            for lane in self.lanes
        ]
        algorithms = [lane.algorithm for lane in self.lanes]
        if all(algorithm is self.algorithm for algorithm in algorithms):
            return carries
        # To compile an initial state takes seconds; but for these settings one program serves all.
        hypers = jax.jit(lambda key: [a.init(key).hyper for a in algorithms])(keys(0)[0])
        return [
            carry._replace(state=carry.state._replace(hyper=hyper))
            for carry, hyper in zip(carries, hypers, strict=True)
        ]

    def flops(self) -> float:
        """Arithmetic of one step of all runs."""
        update = trace_update(self.algorithm, self.batch_size, *self.sizes)
        return len(self.lanes) * cost_of(update).flops

    def agent(self, carry: Carry, lane: int) -> Agent:
        """What one run has learned."""
        run = self.lanes[lane].run
        assert run.run is not None
        state = one_of(leader.gather(self.algorithm, carry).state, lane, len(self.lanes))
        return Agent(
            self.algorithm,
            state,
            self.scaling,
            self.task,
            seed=run.seed,
            folder=run.run,
            names=self.names,
        )


def check(spec: RunSpec, dataset: Dataset) -> None:
    """Refuse what cannot be trained, and warn of what teaches nothing, before a folder is made."""
    config, run = spec.config, spec.run
    if getattr(config, "warmup_steps", 0) >= run.steps:
        warnings.warn(
            f"all {run.steps} steps are warm-up (--warmup-steps is {config.warmup_steps}): the policy "
            "will learn nothing from rewards. Set --warmup-steps or take a --preset.",
            stacklevel=3,
        )
    track.require(run.track)
    if not run.allow_finite_actions:
        finite.refuse(dataset.name, dataset.actions, dataset.action_names)
    made = _made(spec, dataset)
    refuse_too_large(made, config.batch_size, dataset.observation_size, dataset.action_size)
    if config.batch_size > dataset.size:
        # Rows are drawn with replacement, so this is only a waste of time.
        warnings.warn(
            f"--batch-size {config.batch_size} is larger than the data ({dataset.size} transitions): "
            "every step sees rows several times. A smaller batch is faster.",
            stacklevel=3,
        )
    if run.n_step > 1 and not hasattr(config, "discount"):
        raise CharyError(
            f"--n-step {run.n_step}: {spec.algorithm} has no TD targets to look ahead with."
        )
    if run.validation and made.validate is None:
        raise CharyError(
            f"--validation holds out data to score an algorithm on, but {spec.algorithm} has no such "
            "score."
        )
    _task(run, dataset, scaling_of(split(dataset, run)[0], run))


def _made(spec: RunSpec, dataset: Dataset) -> Algorithm[Any]:
    sizes = dataset.observation_size, dataset.action_size
    return algos.build(spec.algorithm, spec.config, *sizes, spec.execution)


def make_plan(specs: Sequence[RunSpec], dataset: Dataset) -> Plan:
    """Put together what the loop needs for runs that differ only in seeds and continuous settings."""
    first = specs[0]
    algorithm, config, run = first.algorithm, first.config, first.run
    # Equal settings are one value, so that what is compiled for one run serves the next.
    made = {spec.config: _made(spec, dataset) for spec in {s.config: s for s in specs}.values()}
    if run.n_step > 1 and len({spec.config.discount for spec in specs}) > 1:
        # The discount is in the data, which all runs of a program share.
        raise CharyError(
            f"--n-step {run.n_step}: runs with several discounts cannot be trained together, because "
            "the rewards of several steps are summed with one. Train them one after another."
        )
    learn_from, held_out = split(dataset, run)
    scaling = scaling_of(learn_from, run)
    task = _task(run, dataset, scaling)
    members = f", {config.members} members" if hasattr(config, "members") else ""
    title = (
        f"{len(specs)} runs of {algorithm}{members} each" if len(specs) > 1 else algorithm + members
    )
    feed = (
        make_feed(
            made[config],
            learn_from,
            scaling,
            config.batch_size,
            seeds=[spec.run.seed for spec in specs],
            n_step=run.n_step,
            discount=getattr(config, "discount", 1.0),
        )
        if first.online is None
        else _acting_feed(first, made[config], learn_from, scaling, task)
    )
    return Plan(
        lanes=tuple(
            Lane(made[spec.config], getattr(spec.config, "discount", None), spec.run)
            for spec in specs
        ),
        title=title,
        batch_size=config.batch_size,
        feed=feed,
        held_out=held_out.transitions(scaling) if held_out else None,
        scaling=scaling,
        task=task,
        names=Names(dataset.observation_names, dataset.action_names),
        is_online=first.online is not None,
    )


def _acting_feed(
    spec: RunSpec, made: Algorithm[Any], dataset: Dataset, scaling: Scaling, task: Task | None
) -> Feed:
    """Batches of a run that acts in its task."""
    from chary.online.feed import Learner, make_feed

    assert spec.online is not None
    if task is None:
        raise CharyError(
            f"{spec.folder}: '{dataset.name}' has no simulator to act in. Name one with --env: a "
            "Gymnasium id, or your own module:make."
        )
    folder, parent = RunFolder.open(spec.folder), spec.online.parent
    if parent is not None and not folder.checkpoint_steps():
        raise CharyError(
            f"{folder.path}: was killed as it began, before it had what {parent} has learned. Begin "
            f"again: `chary finetune {parent} --run {folder.path}` with the same options."
        )
    size, discount = spec.config.batch_size, spec.config.discount
    learner = Learner(made, dataset, scaling, size, spec.run.seed, spec.run.n_step, discount)
    return make_feed(learner, task, spec.online, folder)


def split(dataset: Dataset, run: RunConfig) -> tuple[Dataset, Dataset | None]:
    """What a run learns from, and the episodes that it is validated on, if any."""
    return validation_split(kept_out(dataset, run)[0], run)


def validation_split(kept: Dataset, run: RunConfig) -> tuple[Dataset, Dataset | None]:
    """The same, of data from which held-out episodes are gone."""
    return kept.split(run.validation, run.seed) if run.validation else (kept, None)


def kept_out(dataset: Dataset, run: RunConfig) -> tuple[Dataset, Dataset | None]:
    """What runs of any seed may learn from, and the episodes that are kept for comparing them."""
    if not run.holdout:
        return dataset, None
    return dataset.split(run.holdout, HOLDOUT_SEED, ends=dataset.walk_ends)


def scaling_of(dataset: Dataset, run: RunConfig) -> Scaling:
    """How a run sees the data that it learns from."""
    assert run.reward_scale is not None and run.reward_shift is not None
    reward = RewardTransform(run.reward_scale, run.reward_shift)
    return Scaling.of(dataset, reward, normalise_observations=run.normalise_observations)


def _task(run: RunConfig, dataset: Dataset, scaling: Scaling) -> Task | None:
    """The user's own simulator, or the one that goes by the dataset's name if it takes such observations
    and actions."""
    if run.env:
        return own_task(run.env, scaling)
    task = dataset.task
    if task is None:
        return None
    environment = task.make()
    spaces = environment.observation_space.shape, environment.action_space.shape
    environment.close()
    sizes = (dataset.observation_size,), (dataset.action_size,)
    if spaces != sizes:
        raise CharyError(
            f"the data is called '{dataset.name}' like a task whose observations and actions are "
            f"{spaces}, but has {sizes}. Give it another name."
        )
    return task
