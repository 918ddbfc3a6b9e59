"""What an ensemble's health means, in words, and what to do about it."""

from typing import Literal, NamedTuple

import numpy as np

from chary.report.health import MOST, READ, Health, Look
from chary.report.story import RunStory

Level = Literal["good", "note", "warning", "bad"]
GRAVEST_FIRST = ("bad", "warning", "note", "good")

IDLE = 1e-3
"""Members that differ less than this, relative to how values differ between states, agree."""
SLACK = 0.05
"""Of the range of possible returns, by which values may leave it: critics are not exact."""
FAR = 0.25
"""Of that range, by which a prediction may miss what is achieved."""
HELD, BROKEN = 0.9, 0.5
"""Shares of episodes in which a bound that is worth its name holds, and in which it says nothing."""
CHANCE = 0.45
"""Area under the ROC curve below which it is no longer chance that random actions are doubted less."""
CLEARLY, KNOWN = 2.0, 0.9
"""Members know where the data ends if they differ this many times as much on random actions as on logged
ones, and tell the two apart with this area under the ROC curve."""
LEAVES = 0.2
"""Share of states in which a policy may act as 2% of the logged actions do."""
FEW = 0.25
"""Share of the members below which their effective number is worth a warning."""


class Verdict(NamedTuple):
    """One judgement."""

    level: Level
    rule: str
    title: str
    text: str
    advice: str = ""


def judge(story: RunStory, health: Health | None) -> list[Verdict]:
    """Everything there is to say, the gravest first."""
    verdicts: list[Verdict] = []
    if story.diverged:
        verdicts.append(Verdict("bad", "ended", "Training diverged", story.diverged))
    if health is None:
        return [*verdicts, _nothing(story)]
    verdicts += [*_members(health), *_range(story, health), *_disagreement(health)]
    verdicts += _policy(story, health)
    verdicts += _calibration(story, health, quiet={verdict.rule for verdict in verdicts})
    return sorted(verdicts, key=lambda verdict: GRAVEST_FIRST.index(verdict.level))


def _nothing(story: RunStory) -> Verdict:
    if not story.snapshot_steps:
        text = (
            "The critics are examined every --eval-every steps and at the end; not yet in this run."
        )
    elif any(True for _ in story.snapshots(READ, most=MOST)):
        text = f"{story.algorithm} has no critics, so there is no ensemble to judge."
    else:
        text = "The diagnostics of the critics cannot be read; the warnings name the files."
    return Verdict("note", "nothing", "Nothing to judge", text)


def _members(health: Health) -> list[Verdict]:
    last, found = health.last, []
    if last.wild:
        found.append(
            Verdict(
                "bad",
                "wild",
                f"{_members_named(last.wild, last.members)} diverged",
                "Their values are not finite, or more than ten times as large as the others'.",
                "Lower the critics' learning rate, scale the rewards or normalise observations.",
            )
        )
    if last.dead:
        found.append(
            Verdict(
                "warning",
                "dead",
                f"{_members_named(last.dead, last.members)} died",
                "They give the same value everywhere and add nothing but a constant to the spread.",
                "Lower the critics' learning rate, or use layer normalisation.",
            )
        )
    if last.members == 1:
        found.append(
            Verdict(
                "note",
                "single",
                "A single critic",
                "There is no disagreement to be pessimistic about; "
                "only its calibration can be judged.",
            )
        )
    return found


def _range(story: RunStory, health: Health) -> list[Verdict]:
    """Values that no behaviour could be worth."""
    last = health.last
    believed = [last.typical["data"], last.typical["policy"]]
    if last.calibration is not None:
        believed.append(last.calibration.mean)
    if health.bounds is None or not any(np.isfinite(values).any() for values in believed):
        return []
    low, high = health.bounds
    slack = SLACK * (high - low)
    known = "the data's and the task's" if story.is_online else "the data's"
    top, bottom = (float(pick([np.nanmean(v) for v in believed])) for pick in (max, min))
    if top > high + slack:
        return [
            Verdict(
                "bad",
                "above",
                "Q exceeds the largest possible return",
                f"The members' mean is {_short(top)}, but rewards like {known} add up to no more "
                f"than {_short(high)}: the critics overestimate.",
                _more_pessimism(story),
            )
        ]
    if bottom < low - slack:
        return [
            Verdict(
                "bad",
                "below",
                "Q is below the smallest possible return",
                f"The members' mean is {_short(bottom)}, but rewards like {known} add up to no less "
                f"than {_short(low)}: pessimism feeds on itself.",
                _less_pessimism(story),
            )
        ]
    return []


def _disagreement(health: Health) -> list[Verdict]:
    last = health.last
    if last.members == 1 or not all(np.isfinite(list(last.std.values()))):
        return []
    size = float(np.abs(last.typical["policy"]).max())
    if max(last.std.values()) <= IDLE * max(last.spread, 1e-9 * size, 1e-12):
        return [
            Verdict(
                "bad",
                "collapsed",
                "Members agree on everything: pessimism is idle",
                "Their standard deviation is negligible against differences between states, even for "
                "random actions, so the lower confidence bound is the mean.",
                "Use independent targets and members that share no weights (--targets independent, "
                "--ensemble deep).",
            )
        ]
    found = []
    if health.beta == 0.0:
        found.append(
            Verdict(
                "note",
                "mean",
                "The bound is the mean",
                "This run's beta is 0: what the members disagree "
                "about has no influence on the policy.",
            )
        )
    found.append(_where_the_data_ends(last))
    if last.effective < max(2.0, FEW * last.members):
        found.append(
            Verdict(
                "warning",
                "alike",
                f"{last.members} members count as {last.effective:.1f}",
                "Their errors are similar, so their spread says little about how wrong they may be.",
                "Use members that share fewer weights, or independent targets.",
            )
        )
    return found


def _where_the_data_ends(last: Look) -> Verdict:
    """Whether the disagreement that actions can change is larger where the data has none of them."""
    ratio = last.relative["random"] / max(last.relative["data"], 1e-12)
    area = last.told_apart["random"]
    text = (
        f"Without the offsets between members, their values differ {ratio:.1f} times as much on random "
        "actions as on logged ones. This separates the two with an area under the ROC curve of "
        f"{area:.2f}."
    )
    if area < CHANCE:
        return Verdict(
            "warning",
            "blind",
            "Members do not know where the data ends",
            f"{text} Beyond the data they should differ more.",
            "Train longer, or use members that share fewer weights.",
        )
    if ratio < CLEARLY:
        return Verdict(
            "note",
            "even",
            "Members doubt random actions little more than logged ones",
            f"{text} Either actions matter little here, or the data covers them, or the members cannot "
            "see the difference.",
        )
    if area < KNOWN:
        return Verdict(
            "note",
            "overlapping",
            "Members doubt random actions more, but not everywhere",
            f"{text} They differ about some logged actions as much as about random ones: one doubt "
            "alone says little, many say more.",
        )
    return Verdict("good", "aware", "Members know where the data ends", text)


def _policy(story: RunStory, health: Health) -> list[Verdict]:
    """Whether the policy does what the data has seen done. One that acts in its task may well not."""
    if health.actions is None or story.is_online:
        return []
    outside = health.actions.outside()
    if outside.max() <= LEAVES:
        return []
    names = story.names("action")
    named = len(names) == len(outside)
    most = int(outside.argmax())
    return [
        Verdict(
            "warning",
            "leaves",
            "The policy leaves the logged actions",
            f"In {outside[most]:.0%} of the data's states its "
            f"{names[most] if named else f'action {most}'} lies where no more than 2% of the logged "
            "ones do: below their 1% quantile or above their 99% quantile.",
            _more_pessimism(story) + " A cloning penalty holds the policy to the data (--cloning).",
        )
    ]


def _calibration(story: RunStory, health: Health, quiet: set[str]) -> list[Verdict]:
    """What was promised at the start of episodes against what came of it."""
    last = health.last.calibration
    if last is None:
        return []
    if not np.isfinite(last.mean).all() or quiet & {"above", "below", "wild"}:
        return []
    low, high = health.bounds or (0.0, 0.0)
    # Without bounds, the returns themselves say what is much.
    size = max(high - low, 0.0) or max(np.ptp(last.achieved), np.abs(last.achieved).mean(), 1e-9)
    achieved, promised = float(last.achieved.mean()), float(last.mean.mean())
    found = []
    if promised - achieved > FAR * size:
        found.append(
            Verdict(
                "warning",
                "optimistic",
                "The critics promise more than is achieved",
                f"At the start of episodes they expect {_short(promised)} on average; the return was "
                f"{_short(achieved)}.",
                _more_pessimism(story),
            )
        )
    if last.lcb is None or last.held is None or health.last.members == 1 or health.beta == 0.0:
        return found
    bound = float(last.lcb.mean())
    if achieved - bound > FAR * size or (health.bounds and bound < low - SLACK * size):
        found.append(
            Verdict(
                "warning",
                "pessimistic",
                "The bound is far below what is achieved",
                f"It promises {_short(bound)} at the start of episodes, the return was "
                f"{_short(achieved)}: the uncertainty steers the policy more than the value does.",
                _less_pessimism(story),
            )
        )
    elif last.held < BROKEN:
        found.append(
            Verdict(
                "warning",
                "broken",
                f"The bound held in only {last.held:.0%} of episodes",
                f"It promised {_short(bound)}, the return was {_short(achieved)} on average.",
                _more_pessimism(story)
                + " A bound on values does not bound a policy that is still changing: "
                "train longer, too.",
            )
        )
    else:
        level: Level = "good" if last.held >= HELD else "note"
        found.append(
            Verdict(
                level,
                "held",
                f"The bound held in {last.held:.0%} of episodes",
                f"It promised {_short(bound)}, the return was {_short(achieved)} on average.",
            )
        )
    return found


def _more_pessimism(story: RunStory) -> str:
    if {"alpha", "beta"} <= story.part("settings").keys():
        return "Raise alpha or lower beta."
    return "Ask for more pessimism, lower the critics' learning rate or scale the rewards."


def _less_pessimism(story: RunStory) -> str:
    if {"alpha", "beta"} <= story.part("settings").keys():
        return "Raise beta towards 0 or lower alpha; with shared targets, try independent ones."
    return "Ask for less pessimism."


def _members_named(which: tuple[int, ...], members: int) -> str:
    if len(which) == members:
        return "All members"
    if len(which) == 1:
        return f"Member {which[0] + 1} of {members}"
    named = ", ".join(str(index + 1) for index in which[:8]) + (", ..." if len(which) > 8 else "")
    return f"Members {named} of {members}"


def _short(value: float) -> str:
    return f"{value:.4g}"
