"""What the paper claims about independence, beside what was measured."""

from typing import Any

NEAR = 40
"""Of a thousand runs: three standard deviations of a count of about 221."""
WANTED_RATIO = 3.0
"""Spread left of the gap over that right of it, from which on we call it significantly more."""

Row = dict[str, Any]


def claims(linear: Row, chain: list[Row], width: list[Row]) -> list[Row]:
    """Rows of claim, the paper's word, what was measured, and whether they agree."""
    return [*_linear(linear), *_chain(chain), *_width(width)]


def _claim(claim: str, paper: str, measured: str, agrees: bool) -> Row:
    return {"claim": claim, "paper": paper, "measured": measured, "agrees": bool(agrees)}


def _linear(facts: Row) -> list[Row]:
    shared, runs = facts["shared_optimistic"], facts["runs"]
    errors = facts["formula_error_shared"], facts["formula_error_independent"]
    return [
        _claim(
            "Shared targets can be optimistic (linear models)",
            "221 of 1000 runs",
            f"{shared} of {runs} runs, {facts['kept']} of which contract",
            abs(shared / runs * 1000 - 221) <= NEAR,
        ),
        _claim(
            "Independent targets cannot (linear models)",
            "cannot occur",
            f"{facts['independent_optimistic']} runs, with {facts['members']} iterated members",
            facts["independent_optimistic"] == 0,
        ),
        _claim(
            "Theorem 3.1 is what iterating ends in",
            "proved",
            f"largest differences {errors[0]:.1g} (shared), {errors[1]:.1g} (independent)",
            max(errors) < 1e-6,
        ),
    ]


def _chain(rows: list[Row]) -> list[Row]:
    by_rule = {row["rule"]: row for row in rows}
    independent = by_rule["independent"]
    near = {rule: by_rule[rule]["bound_gap"] for rule in ("shared-lcb", "shared-min")}
    return [
        _claim(
            "Independent targets spread where the policy must cross the gap (chain)",
            "significantly more on the left, little on the right",
            f"std left / right {independent['ratio']:.1f}",
            independent["ratio"] >= WANTED_RATIO,
        ),
        _claim(
            "The spread rises through the gap from right to left (chain, independent)",
            "gradually",
            "std in its thirds, left to right: "
            + ", ".join(f"{third:.2g}" for third in independent["gap"]),
            independent["rises"],
        ),
        _claim(
            "Shared LCB and min come near the lower bound of independent targets (chain)",
            "a seemingly good approximation",
            ", ".join(f"{rule} {gap:.2g}" for rule, gap in near.items())
            + f" from it, whose own std is {independent['left']:.2g} on the left",
            max(near.values()) <= independent["left"],
        ),
    ]


def _width(rows: list[Row]) -> list[Row]:
    ntk = [row for row in rows if row["network"] == "ntk"]
    maximal = [row for row in rows if row["network"] == "maximal-update"]
    infinite = next(row for row in rows if row["network"] == "infinite")
    errors = [row["error"] for row in ntk]
    return [
        _claim(
            "Wider NTK networks come nearer to the closed form",
            "more similar with width",
            ", ".join(f"{row['width']}: {row['error']:.2g}" for row in ntk),
            errors == sorted(errors, reverse=True),
        ),
        _claim(
            "The spread shrinks towards infinite width (NTK)",
            "the variances become very small",
            f"std left of the gap {ntk[0]['left']:.2g} at width {ntk[0]['width']}, "
            f"{infinite['left']:.2g} at infinite width",
            infinite["left"] < ntk[0]["left"],
        ),
        _claim(
            "Its structure collapses there (NTK)",
            "collapses",
            f"std left / right {ntk[0]['ratio']:.2f} at width {ntk[0]['width']}, "
            f"{infinite['ratio']:.2f} at infinite width",
            infinite["ratio"] < ntk[0]["ratio"],
        ),
        _claim(
            "Maximal-update networks keep the structure at every width",
            "kept up to width 32768",
            "std left / right "
            + ", ".join(
                f"{row['width']}: {row['ratio']:.2f}{'' if row['rises'] else ' (does not rise)'}"
                for row in maximal
            ),
            all(row["ratio_interval"][0] > 1.0 and row["rises"] for row in maximal),
        ),
    ]
