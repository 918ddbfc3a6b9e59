"""What the paper claims about independence, beside what was measured."""

from typing import Any

NEAR = 40
"""Of a thousand runs: three standard deviations of a count of about 221."""
SIGNIFICANT_RATIO = 3.0
"""Spread left of the gap over that right of it, from which on we call it significantly more."""
COLLAPSED_RATIO = 1.25
"""The same ratio, up to which we say that the spread has no structure: it begins with 1."""

Row = dict[str, Any]


def claims(linear: Row, chain: list[Row], width: list[Row], constants: list[Row]) -> list[Row]:
    """Rows of claim, the paper's word, what was measured, and whether they agree."""
    return [*_linear(linear), *_chain(chain), *_width(width), *_collapse(width, constants)]


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
            f"in {facts['independent_optimistic']} runs the bound of {facts['members']} iterated "
            "members lies above their own mean",
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
            independent["ratio"] >= SIGNIFICANT_RATIO,
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
    linearised, ntk = _of(rows, "linearised"), _of(rows, "ntk")
    (infinite,) = _of(rows, "infinite")
    return [
        _claim(
            "Wider NTK networks come nearer to the closed form",
            "more similar with width",
            f"distance, linearised: {_by_width(linearised, 'error')}; "
            f"trained: {_by_width(ntk, 'error')}",
            _falls(linearised, "error") and _falls(ntk, "error"),
        ),
        _claim(
            "The spread shrinks towards infinite width (NTK)",
            "the variances become very small",
            f"std left of the gap, linearised: {_by_width(linearised, 'left')}; "
            f"infinite: {infinite['left']:.2g}",
            _falls([*linearised, infinite], "left"),
        ),
    ]


def _collapse(rows: list[Row], constants: list[Row]) -> list[Row]:
    (infinite,), linearised = _of(rows, "infinite"), _of(rows, "linearised")
    ntk, maximal = _of(rows, "ntk"), _of(rows, "maximal-update")
    ours = [row for row in constants if row["weight_std"] == 1.0]
    ratios = [row[key] for row in ours for key in ("ratio", "ridge_ratio")]
    contracts = None not in ratios
    other = [
        f"{row['ratio']:.2f} with sigma_w {row['weight_std']:g} and sigma_b {row['bias_std']:g}"
        for row in constants
        if row["weight_std"] != 1.0 and row["ratio"] is not None
    ]
    return [
        _claim(
            "The structure collapses towards infinite width (NTK)",
            "collapses",
            f"std left / right, trained: {_by_width(ntk, 'ratio')}; "
            f"linearised: {_by_width(linearised, 'ratio')}; infinite: {infinite['ratio']:.2f}",
            ntk[0]["ratio"] > COLLAPSED_RATIO >= infinite["ratio"],
        ),
        _claim(
            "It does so whatever sigma_b is (infinite width, sigma_w = 1; the paper gives neither)",
            "collapses",
            f"std left / right {min(ratios):.2f} to {max(ratios):.2f} for {len(ours)} sigma_b in two "
            f"closed forms; but {', '.join(other)}"
            if contracts
            else "diverges for some sigma_b",
            contracts and max(*ratios, 1 / min(ratios)) <= COLLAPSED_RATIO,
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


def _of(rows: list[Row], network: str) -> list[Row]:
    return [row for row in rows if row["network"] == network]


def _by_width(rows: list[Row], key: str) -> str:
    return ", ".join(f"{row['width']}: {row[key]:.2g}" for row in rows)


def _falls(rows: list[Row], key: str) -> bool:
    values = [row[key] for row in rows]
    return values == sorted(values, reverse=True)
