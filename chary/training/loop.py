"""The training loop: the host's work, which is done only at boundaries between compiled chunks.

The length of a chunk is chosen so that the host gets a word in about once a second. One loop serves one
run and many.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np

from chary.errors import DivergedError, TaskError
from chary.evaluation.diagnostics import diagnose
from chary.execution.processes import leader
from chary.execution.program import Carry, one_of
from chary.host.machine import give_back_memory
from chary.host.terminal import TrainingDisplay, say
from chary.runs.folder import RunFolder
from chary.track.following import Following
from chary.training.plan import Plan
from chary.training.run_config import RunConfig
from chary.training.time_left import Forecast

CHUNK_SECONDS = 1.0
DIVERGED = 1e9
"""No sensible mean of a loss, value or likelihood is larger than this."""


class Member(NamedTuple):
    """A run that takes part in the loop."""

    lane: int
    """Its place in the program."""
    folder: RunFolder
    trackers: Following


def run_loop(
    plan: Plan, folders: Sequence[RunFolder], carry: Carry, step: int, forecast: Forecast
) -> Carry:
    """Train all runs from a step to their end, leaving everything in their folders.

    Raises KeyboardInterrupt, with checkpoints written, when the user asks to stop. A run that diverges
    is marked and left out of all that is kept, but still computed beside the others: the program, and
    so the bits of the others, stay what they are. When none is left, DivergedError is raised.
    """
    run = plan.run
    validate = jax.jit(plan.algorithm.validate) if plan.algorithm.validate else None
    length, measured_from = plan.feed.stride, step
    saved_at = clock = time.monotonic()
    with (
        stop_requests() as stop_asked,
        TrainingDisplay(run.steps, step, [folder.path.name for folder in folders]) as display,
        ExitStack() as files,
    ):
        members = [
            Member(i, folder, files.enter_context(Following(folder, run.track)))
            for i, folder in enumerate(folders)
            if not folder.diverged()
        ]
        for line in dict.fromkeys(line for member in members for line in member.trackers.look):
            display.say(line)
        for member in members:
            display.scores(member.lane, member.folder.last(), member.folder.best())
        _look_if_due(plan, members, carry, step, display, stop_asked)
        files.callback(plan.feed.close)
        while not is_over(step, folders[0], run):
            stop = min(step + length, _next_boundary(step, run), plan.feed.reach(step))
            began = time.monotonic()
            try:
                carry, others_asked = leader.advance(plan.feed, carry, step, stop)
            except TaskError as error:  # the step that failed is not taken; all before it is kept
                _save(plan, members, carry, step)
                raise TaskError(f"{error} {_how_to_resume(members)}") from error.__cause__
            seconds = time.monotonic() - began
            done, step = stop - step, stop
            # Grow gently: the first chunk includes compilation and says nothing about speed.
            rate = done / max(seconds, 1e-9)
            longer = min(2 * max(length, done), round(CHUNK_SECONDS * rate))
            length = max(plan.feed.stride, longer)
            display.step(step)
            means = carry.means()
            members = _sound(members, means, step)

            best_so_far = False
            if logs_at(step, run):
                if validate is not None and plan.held_out is not None:
                    score = float(validate(carry.state, plan.held_out))
                    best_so_far = all(score > v for v in folders[0].validations())
                    means[0]["validation"] = score
                since = (step - 1) // run.log_every * run.log_every
                means[0] |= plan.feed.metrics(since, step)
                carry = carry.fresh()
                now = time.monotonic()
                speed = (step - measured_from) / max(now - clock, 1e-9)
                clock, measured_from = now, step
                timing = {"step": step, "steps_per_s": speed, "time": time.time()}
                for member in members:
                    member.folder.append("metrics", {"step": step, **means[member.lane]})
                    member.folder.append("timing", timing)
                    member.trackers.catch_up()
            due = time.monotonic() - saved_at > 60.0 * run.checkpoint_minutes
            # Looked at once: it may change while we save.
            stopping = stop_asked() or others_asked
            stopping = stopping or not forecast.consents(done, seconds, step, display)
            over = is_over(step, folders[0], run)
            if due or best_so_far or stopping or over or _look_at(step, plan):
                _save(plan, members, carry, step)
                give_back_memory()
                saved_at = time.monotonic()
            if stopping:
                raise KeyboardInterrupt(_how_to_resume(members))
            _look_if_due(plan, members, carry, step, display, stop_asked)
    return carry


def logs_at(step: int, run: RunConfig) -> bool:
    """Whether a line of metrics falls on this step."""
    return step % run.log_every == 0 or step == run.steps


def is_over(step: int, folder: RunFolder, run: RunConfig) -> bool:
    """At the last step, or when validation has not improved for as long as the run is patient."""
    if step >= run.steps or not run.patience:
        return step >= run.steps
    scores = folder.validations()
    recent = scores[-run.patience :]
    return len(scores) > run.patience and max(scores[: -run.patience]) >= max(recent)


def _next_boundary(step: int, run: RunConfig) -> int:
    """The next step at which the host has something to do."""
    intervals = [run.log_every, *([run.eval_every] if run.eval_every else [])]
    return min(run.steps, *((step // every + 1) * every for every in intervals))


def _save(plan: Plan, members: Sequence[Member], carry: Carry, step: int) -> None:
    """Checkpoints of all runs, whole."""
    plan.feed.keep(step)
    whole = leader.gather(plan.algorithm, carry)
    for member in members:
        own = one_of(whole, member.lane, len(plan.lanes))
        member.folder.save_checkpoint(step, own)


def _look_at(step: int, plan: Plan) -> bool:
    """Whether a look at the policy and its critics on the way falls on this step. A policy that is to
    learn in its task is looked at before it does."""
    every = plan.run.eval_every if plan.run.final_episodes else 0
    return every > 0 and step % every == 0 and (step > 0 or plan.is_online)


def _look_if_due(
    plan: Plan,
    members: Sequence[Member],
    carry: Carry,
    step: int,
    display: TrainingDisplay,
    stop_asked: Callable[[], bool],
) -> None:
    """Evaluate where there is a simulator and ask the critics at this step, unless that was done before
    the runs were interrupted."""
    for member in members:
        folder = member.folder
        final = plan.run.final_episodes > 0 and is_over(step, folder, plan.run)
        if not (final or _look_at(step, plan)):
            return
        if folder.looked_at(step, simulated=plan.task is not None):
            continue
        agent = plan.agent(carry, member.lane)
        result = None
        if plan.task is not None:
            episodes = plan.run.final_episodes if final else plan.run.eval_episodes
            try:
                result = agent.evaluate(
                    episodes, act=plan.run.act, step=step, paths=8, stop_asked=stop_asked
                )
            except (
                KeyboardInterrupt
            ):  # checkpoints of this step are there; resuming evaluates first
                raise KeyboardInterrupt(_how_to_resume(members)) from None
        discount = plan.lanes[member.lane].discount
        if arrays := diagnose(agent, result, plan.feed, discount, final=final):
            folder.save_diagnostics(step, arrays)
        if result is not None:
            record = {"step": step, "episodes": len(result.returns), **result.record()}
            folder.append("evals", record)
            member.trackers.catch_up()
            display.scores(member.lane, record, folder.best())


def _how_to_resume(members: Sequence[Member]) -> str:
    folder = members[0].folder
    path = folder.path if len(members) == 1 else folder.path.parent
    return f"Saved at step {folder.checkpoint_steps()[-1]}; resume with `chary resume {path}`."


def _sound(members: Sequence[Member], means: Sequence[dict[str, float]], step: int) -> list[Member]:
    """The runs that have not diverged; the others are marked, and named."""
    sound, message = [], ""
    for member in members:
        wild = [
            f"{name} {'is not a number' if np.isnan(mean) else f'has grown to {mean:.3g}'}"
            for name, mean in means[member.lane].items()
            if not np.isfinite(mean) or abs(mean) > DIVERGED
        ]
        if not wild:
            sound.append(member)
            continue
        steps = member.folder.checkpoint_steps()
        message = (
            f"training diverged: {wild[0]} before step {step}. The last checkpoint is of step "
            f"{steps[-1] if steps else 'none'}. Try lower learning rates, scaled rewards or "
            "normalised observations."
        )
        member.folder.mark_diverged(step, message)
        if len(means) > 1:
            say(f"{member.folder.path}: {message}")
    if not sound:
        raise DivergedError(message)
    return sound


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP (a closed terminal) into a request to stop; a second
    Ctrl-C ends at once."""
    asked = False

    def ask(number: int, _frame: Any) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True

    numbers = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    # Under nohup it is ignored, and must stay so.
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        numbers.append(hangup)
    try:
        before = {number: signal.signal(number, ask) for number in numbers}
    except ValueError:  # not in the main thread: nobody to ask
        before = {}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
