"""The training loop: the host's work, which is done only at boundaries between compiled chunks.

The length of a chunk is chosen so that the host gets a word in about once a second.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np

from chary.agent import Agent
from chary.chunk import Carry, initial_carry
from chary.data.scaling import Scaling
from chary.diagnose import diagnose
from chary.envs import Task
from chary.errors import DivergedError
from chary.evaluate import EvalResult
from chary.feed import Feed
from chary.progress import TrainingDisplay
from chary.runs import RunFolder
from chary.settings import RunConfig
from chary.tensorboard import EventFiles
from chary.types import Algorithm, Batch

CHUNK_SECONDS = 1.0
DIVERGED = 1e9
"""No sensible mean of a loss, value or likelihood is larger than this."""


class Plan(NamedTuple):
    """Everything a run needs besides its state."""

    algorithm: Algorithm[Any]
    batch_size: int
    discount: float | None
    run: RunConfig
    feed: Feed
    held_out: Batch | None
    scaling: Scaling
    task: Task | None

    def initial_carry(self) -> Carry:
        sizes = len(self.scaling.observation_mean), len(self.scaling.action_low)
        return initial_carry(self.algorithm, self.batch_size, *sizes, seed=self.run.seed)

    def agent(self, state: Any) -> Agent:
        assert self.run.run is not None
        return Agent(
            self.algorithm,
            state,
            self.scaling,
            self.task,
            seed=self.run.seed,
            folder=self.run.run,
        )


def run_loop(plan: Plan, folder: RunFolder, carry: Carry, step: int) -> Carry:
    """Train from a step to the end of the run, leaving everything in the run folder.

    Raises KeyboardInterrupt, with a checkpoint written, when the user asks to stop.
    """
    run = plan.run
    validate = jax.jit(plan.algorithm.validate) if plan.algorithm.validate else None
    length, measured_from = 1, step
    saved_at = clock = time.monotonic()
    with (
        stop_requests() as stop_asked,
        TrainingDisplay(run.steps, step) as display,
        EventFiles(folder, enabled=run.tensorboard) as events,
    ):
        display.scores(folder.last(), folder.best())
        _evaluate_if_due(plan, folder, carry, step, display, events, stop_asked)
        while not is_over(step, folder, run):
            stop = min(step + length, _next_boundary(step, run), plan.feed.reach(step))
            began = time.monotonic()
            carry = jax.block_until_ready(plan.feed.advance(carry, step, stop))
            seconds = time.monotonic() - began
            done, step = stop - step, stop
            # Grow gently: the first chunk includes compilation and says nothing about speed.
            rate = done / max(seconds, 1e-9)
            length = max(1, min(2 * max(length, done), round(CHUNK_SECONDS * rate)))
            display.step(step)
            means = {name: float(s / carry.steps) for name, s in carry.sums.items()}
            _refuse_divergence(means, step, folder)

            best_so_far = False
            if step % run.log_every == 0 or step == run.steps:
                record = means
                if validate is not None and plan.held_out is not None:
                    record["validation"] = float(validate(carry.state, plan.held_out))
                    earlier = [m.get("validation") for m in folder.read("metrics")]
                    best_so_far = all(v is None or record["validation"] > v for v in earlier)
                carry = carry.fresh()
                folder.append("metrics", {"step": step, **record})
                now = time.monotonic()
                speed = (step - measured_from) / max(now - clock, 1e-9)
                folder.append("timing", {"step": step, "steps_per_s": speed, "time": time.time()})
                clock, measured_from = now, step
                events.metrics(step, record)
            due = time.monotonic() - saved_at > 60.0 * run.checkpoint_minutes
            stopping = stop_asked()  # looked at once: it may change while we save
            over = is_over(step, folder, run)
            if due or best_so_far or stopping or over or _evaluation_at(step, run):
                folder.save_checkpoint(step, carry)
                saved_at = time.monotonic()
            if stopping:
                raise KeyboardInterrupt(_how_to_go_on(folder))
            _evaluate_if_due(plan, folder, carry, step, display, events, stop_asked)
    return carry


def is_over(step: int, folder: RunFolder, run: RunConfig) -> bool:
    """At the last step, or when validation has not improved for as long as the run is patient."""
    if step >= run.steps or not run.patience:
        return step >= run.steps
    scores = [m["validation"] for m in folder.read("metrics") if m.get("validation") is not None]
    recent = scores[-run.patience :]
    return len(scores) > run.patience and max(scores[: -run.patience]) >= max(recent)


def _next_boundary(step: int, run: RunConfig) -> int:
    """The next step at which the host has something to do."""
    intervals = [run.log_every, *([run.eval_every] if run.eval_every else [])]
    return min(run.steps, *((step // every + 1) * every for every in intervals))


def _evaluation_at(step: int, run: RunConfig) -> bool:
    """Whether an evaluation on the way falls on this step."""
    return run.final_episodes > 0 and run.eval_every > 0 and step > 0 and step % run.eval_every == 0


def _evaluate_if_due(
    plan: Plan,
    folder: RunFolder,
    carry: Carry,
    step: int,
    display: TrainingDisplay,
    events: EventFiles,
    stop_asked: Callable[[], bool],
) -> None:
    """Evaluate at this step, unless that was done before the run was interrupted."""
    final = plan.run.final_episodes > 0 and is_over(step, folder, plan.run)
    if plan.task is None or not (final or _evaluation_at(step, plan.run)):
        return
    if any(record["step"] == step for record in folder.read("evals")):
        return
    episodes = plan.run.final_episodes if final else plan.run.eval_episodes
    agent = plan.agent(carry.state)
    try:
        result: EvalResult = agent.evaluate(episodes, step=step, paths=8, stop_asked=stop_asked)
    except KeyboardInterrupt:  # the checkpoint of this step is written; resuming evaluates first
        raise KeyboardInterrupt(_how_to_go_on(folder)) from None
    folder.save_diagnostics(step, diagnose(agent, result, plan.feed, plan.discount))
    record = {"step": step, "episodes": episodes, **result.record()}
    folder.append("evals", record)
    events.evaluation(record)
    display.scores(record, folder.best())


def _how_to_go_on(folder: RunFolder) -> str:
    return (
        f"Saved at step {folder.checkpoint_steps()[-1]}; go on with `chary resume {folder.path}`."
    )


def _refuse_divergence(means: dict[str, float], step: int, folder: RunFolder) -> None:
    for name, number in means.items():
        if not np.isfinite(number) or abs(number) > DIVERGED:
            what = "is not a number" if np.isnan(number) else f"has grown to {number:.3g}"
            sound = folder.checkpoint_steps()
            message = (
                f"training diverged: {name} {what} before step {step}. The last checkpoint is of step "
                f"{sound[-1] if sound else 'none'}. Try lower learning rates, scaled rewards or "
                "normalised observations."
            )
            folder.mark_diverged(step, message)
            raise DivergedError(message)


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; a second Ctrl-C ends at once."""
    asked = False

    def ask(number: int, _frame: Any) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: nobody to ask
        before = {}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
