"""Numbers in the docs that come from long runs are those of `results/`, rounded."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCS, RESULTS = ROOT / "docs", ROOT / "results"
ALGORITHMS = {"BC": "bc", "IQL": "iql", "TD3+BC": "td3-bc", "CRR": "crr", "CQL": "cql"}
Table = list[dict[str, str]]


def tables(page: Path) -> list[Table]:
    """The page's tables, each row by its headings."""
    found: list[Table] = []
    for block in re.findall(r"(?:^\|.*\|\n)+", page.read_text() + "\n", re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
        )
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def table(page: Path, *headings: str) -> Table:
    """The one table of a page with these headings."""
    (found,) = (t for t in tables(page) if t and set(headings) <= set(t[0]))
    return found


def text_of(page: Path) -> str:
    """A page in one line."""
    return " ".join(page.read_text().split())


def same(written: str, measured: str | float) -> bool:
    """Whether a cell is the measured one, with as many digits as it has."""
    if written == str(measured):
        return True
    try:
        number = float(str(measured).replace(",", "").rstrip("%"))
        plain = written.replace(",", "").rstrip("%")
        unit = 10.0 ** -len(plain.partition(".")[2])
        # 0.505 to two digits is either: it depends on the digits that are not there.
        return abs(float(plain) - number) <= 0.5001 * unit
    except ValueError:
        return False


def test_rounding() -> None:
    assert same("185", "184.53") and same("0.35", 0.3481) and same("1,077", "1,077")
    assert same("a", "a") and same("61%", "61%")
    assert not same("0.36", 0.3481) and not same("186", "184.53") and not same("-", "3")


RESULT_TABLES = [t for page in sorted(RESULTS.rglob("*.md")) for t in tables(page) if t]
COPIED = [
    (page.relative_to(DOCS), list(found[0]), found, result)
    for page in sorted(DOCS.rglob("*.md"))
    for found in tables(page)
    for result in RESULT_TABLES
    if found and len(found[0]) > 3 and list(found[0]) == list(result[0]) and page.stem != "theory"
]


@pytest.mark.parametrize(
    ("page", "headings", "written", "result"),
    COPIED,
    ids=[f"{c[0]} {c[1][-1][:12]}" for c in COPIED],
)
def test_tables_are_those_of_the_results(
    page: Path, headings: list[str], written: Table, result: Table
) -> None:
    del page
    for row in written:
        assert any(all(same(row[key], other[key]) for key in headings) for other in result), row


def test_there_are_such_tables() -> None:
    pages = {str(page) for page, *_ in COPIED}
    assert pages >= {"own-data.md", "populations.md", "report.md", "speed.md"}


def test_speed_of_simulators() -> None:
    measured = {
        (row["task"], row["work"]): row["steps/s"]
        for row in table(RESULTS / "bench-simulation.md", "task", "work")
    }
    for row in table(DOCS / "speed.md", "task", "simulator alone"):
        found = [
            measured.get((row["task"], w), "-") for w in ("simulator", "evaluation", "collection")
        ]
        assert [row[key] for key in ("simulator alone", "evaluation", "collection")] == found


def test_speed_of_ensembles() -> None:
    measured = table(RESULTS / "bench-ensembles.md", "ensemble", "of no ensemble's")
    share = {(row["ensemble"], row["members"]): row["of no ensemble's"] for row in measured}
    theirs = {(row["ensemble"], row["members"]): row["paper"] for row in measured}
    for row in table(DOCS / "speed.md", "deep", "multi-head"):
        number, _, where = row.pop("").partition(" members, ")
        source = share if where == "here" else theirs
        for kind, written in row.items():
            assert written == source[kind.lower().replace("-", ""), number], (number, kind)
    page = text_of(DOCS / "speed.md")
    whole = [share["batch-whole", number] for number in ("4", "64")]
    assert f"they are slower than deep: {whole[0]} and {whole[1]}." in page
    both = [source[kind, "2"] for source in (share, theirs) for kind in ("cql", "fbrc")]
    ours = f"reach {both[0]} and {both[1]} of a single Q-function's speed here"
    assert f"{ours}, and {both[2]} and {both[3]} in the paper." in page


def test_speed_of_starting() -> None:
    first, second = table(RESULTS / "bench-start.md", "start", "members")
    key = "s to the first update"
    said = re.search(
        r"first update came ([\d.]+) s after the command .*? and after ([\d.]+) s \((\d+)%\) the second "
        r"time",
        text_of(DOCS / "speed.md"),
    )
    assert said is not None and same(said[1], first[key]) and same(said[2], second[key])
    assert same(said[3], 100 * float(second["of the first start's"]))


def test_shifts() -> None:
    kinds = {
        row.pop(""): row for row in table(RESULTS / "shifts.md", "", "pointmaze-umaze, seed 0")
    }
    page = text_of(DOCS / "own-data.md")

    def span(data: str, *rows: str) -> tuple[float, float]:
        cells = [float(v) for row in rows for k, v in kinds[row].items() if k.startswith(data)]
        return min(cells), max(cells)

    far = ("first column two ranges up", "first column two ranges down", "first column 9999",
           "widest column two ranges up", "ten times too large")  # fmt: skip
    for rows, said in (
        (far, "{:.2f} to {:.2f}; but negated"),
        (("negated",), "negated rows have {:.2f} to {:.2f}"),
        (("columns shuffled",), "shuffled columns {:.2f} to {:.2f}"),
    ):
        assert said.format(*span("pointmaze", *rows)) in page
    assert span("hopper", *(kind for kind in kinds if kind != "flagged"))[0] >= 0.99
    least, most = (100 * share for share in span("", "flagged"))
    assert (
        f"5% of the training rows exceed flags {least:.0f} to {most:.0f}% of held-out rows" in page
    )


def test_the_preset_for_own_data() -> None:
    source = RESULTS / "own-data-preset.md"
    rows = {row.pop(""): row for row in table(source, "", "robot, return")}
    page = text_of(DOCS / "own-data.md")

    def returns(setting: str, log: str = "robot") -> list[float]:
        return [float(number) for number in rows[setting][f"{log}, return"].split(", ")]

    logged = re.search(r"heating (\S+), tank (\S+), robot (\S+)\.\n", source.read_text())
    assert logged is not None
    heating, tank, robot = map(float, logged.groups())
    said = [
        *returns("own-data"),
        robot,
        *returns("beta -2"),
        *returns("128x128"),
        *returns("alpha 0"),
    ]
    assert (
        "returns of {:.0f} and {:.0f} where the log has {:.0f}. With beta -2 it was {:.0f} and {:.0f}, "
        "with 128x128 networks {:.0f} in the one seed that was run, with alpha 0 only {:.0f}."
    ).format(*said) in page
    assert not any("replaces" in row["by the rule"] for row in rows.values())
    for setting in rows:
        assert min(returns(setting, "heating")) > heating and min(returns(setting, "tank")) > tank
    areas = {
        log: [float(x) for x in rows["own-data"][f"{log}, smallest AUC"].split(", ")]
        for log in ("heating", "tank", "robot")
    }
    assert min(areas["heating"] + areas["robot"]) >= 0.99
    assert f"the smallest is {min(areas['tank']):.2f} to {max(areas['tank']):.2f}" in page


def test_the_demonstration() -> None:
    rows = {(row["seed"], row[""]): row for row in table(RESULTS / "demo.md", "seed", "success")}
    reached = [round(50 * float(rows[seed, "msg"]["success"])) for seed in "012"]
    page = text_of(ROOT / "README.md")
    assert "MSG reaches the goal in {}, {} and {} of 50 episodes".format(*reached) in page
    assert all(float(rows[seed, "bc"]["success"]) == 0.0 for seed in "012")
    medium = table(RESULTS / "pointmaze-medium.md", "seed", "step", "success")
    share = [round(100 * float(r["success"].strip("*"))) for r in medium if r[""] == "msg"]
    assert "MSG succeeds in {}, {} and {} of 100 episodes".format(*share) in page


STUDIED = sorted(
    page.stem
    for page in (DOCS / "algorithms").glob("*.md")
    if "results/study-baselines.md" in page.read_text()
)


@pytest.mark.parametrize("algorithm", STUDIED)
def test_scores_in_the_study_of_baselines(algorithm: str) -> None:
    study = json.loads((RESULTS / "study-baselines.json").read_text())
    measured = table(RESULTS / "study-baselines.md", "algorithm", "last third")
    (row,) = (row for row in measured if row["algorithm"] == algorithm)
    last, third = (row[key].replace(" ", ", ") for key in ("success, seeds 0 1 2", "last third"))
    assert (
        f"success in {study['final_episodes']} episodes after {study['steps']:,} steps is {last} with "
        f"seeds 0, 1 and 2, and {third} on average over the last third of the evaluations"
    ) in text_of(DOCS / "algorithms" / f"{algorithm}.md")


AGREED = table(RESULTS / "agree.md", "dataset", "algorithm", "ours, by seed")


@pytest.mark.parametrize("algorithm", sorted({row["algorithm"] for row in AGREED}))
def test_scores_beside_d3rlpy(algorithm: str) -> None:
    page = text_of(DOCS / "algorithms" / f"{algorithm}.md")
    for row in AGREED:
        if row["algorithm"] == algorithm:
            ours, theirs = row["ours, by seed"], row["d3rlpy, by seed"]
            assert f"{row['dataset']}, {row['steps']} steps: {ours}; d3rlpy {theirs}" in page


def test_the_page_on_d3rlpy() -> None:
    page = DOCS / "algorithms" / "d3rlpy.md"
    measured = {(row["dataset"], row["algorithm"]): row for row in AGREED}
    lines = [
        line.strip("|").split("|")
        for line in page.read_text().splitlines()
        if line.startswith(tuple(f"| {name} |" for name in ALGORITHMS))
    ]
    scores = [[cell.strip() for cell in line] for line in lines if "±" in line[2]]
    speeds = [[cell.strip() for cell in line] for line in lines if "x256" in line[1]]
    assert len(scores) == len(speeds) == len(ALGORITHMS)
    for name, *cells in scores:
        hopper, maze = (
            [measured[data, ALGORITHMS[name]][key] for key in ("steps", "ours", "d3rlpy")]
            for data in ("hopper-medium", "pointmaze-medium")
        )
        assert cells == [*hopper, *maze], name
    for name, _, *cells in speeds:
        row = measured["hopper-medium", ALGORITHMS[name]]
        found = [row[key] for key in ("ours, updates/s", "d3rlpy, updates/s", "ratio")]
        assert all(same(cell, other) for cell, other in zip(cells, found, strict=True)), name


def test_constants_of_the_theory() -> None:
    constants: list[dict[str, Any]] = json.loads((RESULTS / "theory" / "width.json").read_text())[
        "constants"
    ]
    measured = {(entry["weight_std"], entry["bias_std"]): entry for entry in constants}
    columns = {
        "std left of the gap": "left", "left / right": "ratio", "mean from true value": "value_error",
        "std left, ridge": "ridge_left", "left / right, ridge": "ridge_ratio",
        "mean from true value, ridge": "ridge_value_error", "spectral radius, ridge": "radius",
    }  # fmt: skip
    rows = table(DOCS / "theory.md", "sigma_w", "std left of the gap")
    assert len(rows) == len(measured)
    for row in rows:
        entry = measured[float(row["sigma_w"]), float(row["sigma_b"])]
        for heading, key in columns.items():
            if row[heading] != "diverges":
                assert same(row[heading], entry[key]), (row, key)


def test_what_is_said_of_selection_is_what_the_study_found() -> None:
    found = json.loads((RESULTS / "study-selection-pointmaze-medium.json").read_text())
    rows = {row["score"]: row for row in found["rows"]}
    said = text_of(RESULTS / "selection.md")
    for score in ("place", "bound", "own_value"):
        row = rows[score]
        interval = f"{row['spearman_low']:.2f} to {row['spearman_high']:.2f}"
        assert f"{row['spearman']:.2f}" in said and interval in said
    assert rows["place"]["regret1"] == 0.0 and rows["preset"]["regret1"] == 1.0
    assert f"at random {rows['random']['regret1']:.2f}" in said


def test_what_is_said_of_selection_on_hopper_is_what_the_study_found() -> None:
    found = json.loads((RESULTS / "study-selection-hopper-medium-v2.json").read_text())
    rows = {row["score"]: row for row in found["rows"]}
    said = text_of(RESULTS / "selection.md").partition("## Hopper-medium")[2]
    place = rows["place"]
    interval = f"{place['spearman_low']:.2f} to {place['spearman_high']:.2f}"
    assert f"{place['spearman']:.2f} ({interval})" in said
    assert f"({rows['outside']['spearman']:.2f})" in said
    assert f"({rows['own_value']['spearman']:.2f})" in said
    (ranked,) = found["ranked"]
    truths = {c["name"]: c["truth"] for c in ranked["candidates"]}
    first = ranked["candidates"][0]["name"]
    assert [first] == ranked["best"] and ranked["outcome"] == "tied"
    assert f"return {truths[first]:,.0f}; a clone has {truths['bc']:,.0f}" in said


def test_what_is_said_of_selection_on_cartpole_is_what_the_study_found() -> None:
    found = json.loads((RESULTS / "study-selection-rlu-cartpole-swingup.json").read_text())
    rows = {row["score"]: row for row in found["rows"]}
    said = text_of(RESULTS / "selection.md").partition("## Cartpole")[2]
    for score in ("bound", "td_error"):
        row = rows[score]
        interval = f"{row['spearman_low']:.2f} to {row['spearman_high']:.2f}"
        assert f"({row['spearman']:.2f}, {interval})" in said
    (ranked,) = found["ranked"]
    assert ranked["best"] == ["iql"] and ranked["shortlist"][3] == "iql"
    assert [c["name"] for c in ranked["candidates"][:4]] == ranked["shortlist"]


def test_what_is_said_of_selection_on_antmaze_is_what_the_study_found() -> None:
    found = json.loads((RESULTS / "study-selection-antmaze-umaze-v2.json").read_text())
    rows = {row["score"]: row for row in found["rows"]}
    said = text_of(RESULTS / "selection.md").partition("## Antmaze-umaze")[2]
    for score in ("value", "td_error"):
        row = rows[score]
        interval = f"{row['spearman_low']:.2f} to {row['spearman_high']:.2f}"
        assert f"({row['spearman']:.2f}, {interval})" in said
    assert f"its lower bound has {rows['bound']['spearman']:.2f}" in said
    losses = rows["place"]["regret1"], rows["random"]["regret1"]
    assert f"alone loses {losses[0]:.2f}, choosing at random {losses[1]:.2f}" in said
    (ranked,) = found["ranked"]
    assert ranked["best"] == ["beta-1-alpha0"] == [ranked["candidates"][1]["name"]]
    assert ranked["outcome"] == "tied" and len(ranked["shortlist"]) == 6


def test_the_shares_of_flags_are_those_of_the_benchmark() -> None:
    found = json.loads((RESULTS / "flags.json").read_text())["rows"]
    shares = {row["data"].removesuffix("-v2"): row["shares"] for row in found}
    rows = table(DOCS / "production.md", "rows", "tank")
    assert len(rows) == 6
    for row in rows:
        for data, each in shares.items():
            if row[data]:
                three = [f"{each[row['rows']][way]:.3f}" for way in ("both", "spread", "distance")]
                assert row[data] == " / ".join(three)
    said = text_of(DOCS / "production.md")
    for data in shares:
        assert f"{100 * shares[data]['new episodes']['both']:.2f}%" in said


def test_times_of_decisions_are_those_of_the_benchmark() -> None:
    found = json.loads((RESULTS / "decisions.json").read_text())["rows"]
    rows = table(DOCS / "production.md", "members x network", "ONNX, ms")
    columns = {"actor alone, ms": "actor", "ONNX, ms": "onnx", "NumPy, ms": "npz"}
    assert len(rows) == len(found)
    for row, entry in zip(rows, found, strict=True):
        assert (row["members x network"], int(row["batch"])) == (entry["size"], entry["batch"])
        for heading, key in columns.items():
            assert same(row[heading], entry[key])


def test_what_is_said_of_antmaze_is_what_the_runs_had() -> None:
    found = json.loads((RESULTS / "antmaze/study-scores-antmaze-umaze-v2.json").read_text())
    rows = {row["cell"]: row for row in found["rows"]}
    finals = {name: [run["final"] for run in row["runs"]] for name, row in rows.items()}

    def of_100(cell: str) -> str:
        return " and ".join(f"{100 * score:.0f}" for score in finals[cell])

    said = text_of(ROOT / "README.md")
    assert f"reaches the goal in {of_100('msg-fast')} of 100 episodes, the same with" in said
    assert f"with shared targets in {of_100('msg-shared')}, cloning in {of_100('bc')}," in said
    assert f"the paper's own setting in {of_100('msg-paper')}." in said
    assert finals["rebrac"] == finals["iql"] == [0.0, 0.0] and "are at 0 there" in said
    assert f"in {of_100('msg-fast')} of 100 episodes after 30,000" in text_of(DOCS / "msg.md")
    page = RESULTS / "antmaze/README.md"
    for line, cell in zip(table(page, "seed 0", "seed 1"), rows, strict=True):
        assert [float(line[f"seed {seed}"]) for seed in (0, 1)] == finals[cell]
    fast = rows["msg-fast"]
    for name in ("relative_ratio", "auc_random", "off_ratio"):
        assert f"{fast[name]:.2f}" in text_of(page)
    both = f"is {fast['relative_ratio']:.2f} and the area {fast['auc_random']:.2f}"
    assert f"ratio without offsets {both}" in text_of(DOCS / "limits.md")
