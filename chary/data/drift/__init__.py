"""New logs compared with the data that a policy learned from: whether to retrain.

`compare` looks at every column (`columns`) and at whole states (`states`). The verdict is one of three:
the new data looks like the training data, it differs in some columns, or so many of its states lie
outside the training data that the policy should be trained with it. Only what is larger than the
differences within the training data counts.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from chary.data.dataset import Dataset
from chary.data.drift.columns import Column, compare_columns
from chary.data.drift.sample import Sample
from chary.data.drift.states import EXPECTED, States, compare_states
from chary.errors import CharyError

FEWEST_TRAINING, FEWEST_NEW = 10, 3
"""Episodes that are needed. Of 13 episodes 3 can be chosen in 286 ways, so that the true division can
be among the rarest 1%; with fewer it never is."""
WATCH = 0.02
"""Share of new states outside the training data from which it is mentioned: four times the expected."""
RETRAIN = 0.05
"""Share from which to retrain. A policy that meets an unknown state in every twentieth step leaves the
data several times in an episode of usual length."""
SURELY = 0.02
"""The least that the lower end of the share's interval must be for that. One or two odd episodes among
many are no reason: the bootstrap often draws none of them, and its interval reaches down to 0."""
FOREIGN = 0.9
"""Share from which a mistake in the log is as likely as a change of the world."""
LESS_VISITED = 0.1
"""How much less of the training data new logs visit than any stretch of it does, to be mentioned."""
NAMED = 5
"""Columns that the verdict names."""

Outcome: TypeAlias = Literal["same", "watch", "retrain"]


class Drift(NamedTuple):
    """The verdict, and what it rests on."""

    outcome: Outcome
    sentence: str
    reasons: tuple[str, ...]
    """Everything else that differs, the column that moved farthest first."""
    columns: tuple[Column, ...]
    states: States
    training: dict[str, Any]
    """Sizes, mean reward of a step and mean return of an episode."""
    new: dict[str, Any]


def compare(training: Dataset, new: Dataset) -> Drift:
    """Compare new logs with training data; the result is the same in every call."""
    check_columns(training, new)
    old, late = Sample.of(training), Sample.of(new)
    _check_episodes(old, FEWEST_TRAINING, "the training data")
    _check_episodes(late, FEWEST_NEW, "the new data")
    columns, states = tuple(compare_columns(old, late)), compare_states(old, late)
    outcome, sentence, reasons = judge(columns, states)
    return Drift(outcome, sentence, reasons, columns, states, _described(old), _described(late))


def check_columns(training: Dataset, new: Dataset) -> None:
    """Refuse datasets whose columns are not the same."""
    for kind in ("observation", "action"):
        sizes = [getattr(dataset, f"{kind}_size") for dataset in (training, new)]
        names = [getattr(dataset, f"{kind}_names") for dataset in (training, new)]
        if sizes[0] != sizes[1]:
            raise CharyError(
                f"{new.name}: has {sizes[1]} {kind} column(s), but the training data ({training.name}) "
                f"has {sizes[0]}{_listed(names[0])}. Only data with the same columns can be compared."
            )
        if not all(names) or names[0] == names[1]:
            continue
        if sorted(names[0]) == sorted(names[1]):
            raise CharyError(
                f"{new.name}: its {kind} columns are those of the training data in another order. "
                f"Import it again with --{kind}s {' '.join(names[0])}."
            )
        missing = [name for name in names[0] if name not in names[1]]
        other = [name for name in names[1] if name not in names[0]]
        raise CharyError(
            f"{new.name}: the {kind} columns have other names than in the training data "
            f"({training.name}): {', '.join(other)} instead of {', '.join(missing)}. If they mean the "
            "same, rename them in the log and import it again."
        )


def judge(columns: Sequence[Column], states: States) -> tuple[Outcome, str, tuple[str, ...]]:
    """The verdict in a word and in a sentence, and all that differs."""
    moved = sorted((column for column in columns if column.moved), key=lambda c: -c.distance)
    share, low, high = map(percent, (states.outside, states.outside_low, states.outside_high))
    unusual = states.outside > states.outside_limit and states.outside_low > EXPECTED
    retrain = unusual and states.outside >= RETRAIN and states.outside_low >= SURELY
    reasons = [column.sentence for column in moved]
    if states.visited < states.visited_least - LESS_VISITED:
        reasons.append(
            f"it visits {percent(states.visited)} of the training states, where as much training data "
            f"visits {percent(states.visited_usual)}"
        )
    if retrain:
        sentence = (
            f"{share} of the new states ({low} to {high}) lie outside the training data: retrain with "
            "the new logs."
        )
        if states.outside >= FOREIGN:
            reasons.append(
                "hardly any new state is known: check first that the columns still mean the same "
                "(units, sensors, order)"
            )
        return "retrain", sentence, tuple(reasons)
    if unusual and states.outside >= WATCH:
        reasons.append(f"{share} of its states ({low} to {high}) lie outside the training data")
    if not reasons:
        return "same", "The new data looks like the training data.", ()
    names = [column.name for column in moved]
    shown = names[:NAMED] + [f"{len(names) - NAMED} more"] * (len(names) > NAMED)
    if len(reasons) > len(moved):
        shown.append("the states that it visits")
    sentence = f"The new data differs from the training data in {', '.join(shown)}: watch it."
    return "watch", sentence, tuple(reasons)


def percent(share: float) -> str:
    """A share in words, with as many digits as matter."""
    return f"{share:.1%}" if 0.0 < share < 0.1 else f"{share:.0%}"


def _check_episodes(sample: Sample, fewest: int, what: str) -> None:
    if sample.episodes < fewest:
        raise CharyError(
            f"{sample.dataset.name}: {what} has {sample.episodes} episode(s), but at least {fewest} are "
            "needed to tell a difference from chance. Log for longer; a long log can be cut into "
            "episodes, such as days, with `chary data import --episode`."
        )


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _described(sample: Sample) -> dict[str, Any]:
    dataset = sample.dataset
    return {
        "name": dataset.name,
        "transitions": dataset.size,
        "episodes": len(dataset.walk_ends),
        "rows_compared": len(sample.rows),
        "episodes_compared": sample.episodes,
        "reward_mean": float(dataset.rewards.mean(dtype=float)),
        "return_mean": float(sample.returns.mean()),
    }
