"""Messy tables: time, missing values, dialects of CSV, kinds of Parquet, and all problems at once."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from chary.data import formats
from chary.data.dataset import Dataset
from chary.data.formats.dialect import Dialect
from chary.data.formats.layout import Layout, Reading
from chary.data.formats.tables import Imported, read_tables
from chary.errors import CharyError

LAYOUT = Layout(("s",), ("a",), "r", episode="id", time="t")
UNBROKEN = Layout(("s",), ("a",), "r", time="t")
ONE = Reading(one_episode=True)


def csv(path: Path, *lines: str, heading: str = "id,t,s,a,r", encoding: str = "utf-8") -> Path:
    path.write_bytes("\n".join([heading, *lines, ""]).encode(encoding))
    return path


def steps(imported: Imported) -> list[tuple[float, float]]:
    """Each transition as (observation, next observation)."""
    dataset = Dataset.from_columns(imported.columns, name="log")
    pairs = zip(dataset.observations[:, 0], dataset.next_observations[:, 0], strict=True)
    return [(float(here), float(after)) for here, after in pairs]


def refused(path: Path, layout: Layout = LAYOUT, reading: Reading = ONE) -> str:
    with pytest.raises(CharyError) as caught:
        read_tables([path], layout, reading)
    return str(caught.value)


def minutes(numbers: list[int]) -> list[str]:
    start = datetime(2024, 1, 1)
    return [(start + timedelta(minutes=n)).isoformat(sep=" ") for n in numbers]


def test_an_episode_is_cut_where_time_is_missing(tmp_path: Path) -> None:
    """Rows 10 minutes apart, a lost row after the third, and a lost week after the fifth."""
    when = minutes([0, 10, 20, 40, 50, 50 + 7 * 1440, 60 + 7 * 1440])
    path = csv(tmp_path / "log.csv", *(f"x,{t},{i},0,1" for i, t in enumerate(when)))
    told: list[str] = []
    imported = read_tables([path], LAYOUT, tell=told.append)
    assert steps(imported) == [(0, 1), (1, 2), (3, 4), (5, 6)]
    (counts,) = imported.counts
    assert (counts.interval, counts.max_gap, counts.gaps) == (600.0, 900.0, 2)
    assert (
        f"{path}: a row every 10 min; episodes are cut at 2 gap(s) longer than 15 min (--max-gap), the "
        "longest of 7 days after row 4"
    ) in told
    assert steps(read_tables([path], LAYOUT, Reading(max_gap="20min")))[2] == (2, 3)
    assert len(steps(read_tables([path], LAYOUT, Reading(max_gap="1200")))) == 5
    assert len(steps(read_tables([path], LAYOUT, Reading(max_gap="inf")))) == 6
    # The times themselves are kept, for the doctor.
    assert np.diff(imported.columns["times"])[:3].tolist() == [600.0, 600.0, 1200.0]


def test_plain_numbers_are_times_in_their_own_unit(tmp_path: Path) -> None:
    path = csv(tmp_path / "log.csv", *(f"x,{t},{t},0,1" for t in (0, 1, 2, 4, 5)))
    assert steps(read_tables([path], LAYOUT)) == [(0, 1), (1, 2), (4, 5)]
    assert "holds plain numbers" in refused(path, LAYOUT, Reading(max_gap="2min"))
    for wrong in ("soon", "-1", "0", "5 parsec", "1.2.3"):
        assert "--max-gap is" in refused(path, LAYOUT, Reading(max_gap=wrong))


def test_a_log_without_a_usual_interval_needs_a_limit(tmp_path: Path) -> None:
    times = np.cumsum(np.tile([1, 1, 5], 40))
    path = csv(tmp_path / "log.csv", *(f"x,{t},{t},0,1" for t in times))
    assert "'t' has no usual interval" in refused(path, LAYOUT, Reading())
    assert len(steps(read_tables([path], LAYOUT, Reading(max_gap="5")))) == 119


def test_time_shows_gaps_where_flags_mark_the_ends(tmp_path: Path) -> None:
    lines = ["0,0,0,1,0", "1,1,0,1,1", "0,2,0,1,0", "1,3,0,1,0", "5,4,0,1,0", "6,5,0,1,1"]
    path = csv(tmp_path / "log.csv", *lines, heading="t,s,a,r,done")
    imported = read_tables([path], Layout(("s",), ("a",), "r", time="t", terminal="done"))
    # A true end keeps its row: nothing follows it.
    assert steps(imported) == [(0, 1), (1, 1), (2, 3), (4, 5), (5, 5)]


def test_an_unbroken_log_is_one_episode(tmp_path: Path) -> None:
    path = csv(tmp_path / "log.csv", "2,2,0,1", "0,0,0,1", "1,1,0,1", heading="t,s,a,r")
    assert steps(read_tables([path], UNBROKEN, ONE)) == [(0, 1), (1, 2)]
    twice = read_tables([path, path], UNBROKEN, ONE)
    assert steps(twice) == [(0, 1), (1, 2)] * 2
    assert twice.columns["source_rows"].tolist() == [1, 2, 0, 4, 5, 3]
    assert "leave out --episode" in refused(path, LAYOUT, ONE)
    assert "--one-episode" in refused(path, Layout(("s",), ("a",), "r"), Reading())
    assert "name it with --time" in refused(
        path, Layout(("s",), ("a",), "r"), Reading(one_episode=True, max_gap="2")
    )


def test_no_transition_spans_a_row_that_was_left_out(tmp_path: Path) -> None:
    lines = [
        "x,0,0,0,1",
        "x,1,1,0,1",
        "x,2,,0,1",
        "x,3,3,0,1",
        "x,4,4,0,",
        "x,5,5,0,1",
        "x,6,6,0,1",
    ]
    path = csv(tmp_path / "log.csv", *lines)
    message = refused(path, LAYOUT, Reading())
    assert "2 problems; nothing is written." in message
    assert "column 's': no value in row 2 (1 missing in all)" in message
    assert "column 'r': no value in row 4" in message and "--drop-missing" in message
    told: list[str] = []
    imported = read_tables(
        [path], LAYOUT, Reading(drop_missing=True, max_gap="inf"), tell=told.append
    )
    assert steps(imported) == [(0, 1), (5, 6)]
    assert imported.counts[0].dropped == 2
    assert any("2 of 7 rows lack a value and are left out (s 1, r 1)" in line for line in told)
    # In the file's own order too, and where the lost row's own time or episode is not known.
    for lost in ("x,2,,0,1", "x,,2,0,1", ",2,2,0,1"):
        path = csv(tmp_path / "log.csv", *lines[:2], lost, *lines[3:4])
        layout = LAYOUT if lost.startswith("x,,") else Layout(("s",), ("a",), "r", episode="id")
        kept = read_tables([path], layout, Reading(drop_missing=True, max_gap=None))
        assert steps(kept) == [(0, 1)]


def test_a_true_end_that_was_left_out_is_counted(tmp_path: Path) -> None:
    lines = ["x,0,0,1,0", "x,1,0,1,0", "x,,0,1,1"]
    path = csv(tmp_path / "log.csv", *lines, heading="id,s,a,r,done")
    layout = Layout(("s",), ("a",), "r", episode="id", terminal="done")
    imported = read_tables([path], layout, Reading(drop_missing=True))
    assert imported.counts[0].dropped_ends == 1
    assert not imported.columns["terminals"].any()


@pytest.mark.parametrize(("fill", "expected"), [("previous", [1, 1, 1]), ("linear", [2, 3, 4])])
def test_missing_observations_are_filled_inside_an_episode(
    tmp_path: Path, fill: Any, expected: list[float]
) -> None:
    values = ["0", "1", "", "", "", "5"]
    lines = [f"x,{t},{s},0,1" for t, s in enumerate(values)]
    path = csv(tmp_path / "log.csv", *lines, "y,0,7,0,1", "y,1,8,0,1")
    imported = read_tables([path], LAYOUT, Reading(fill=fill))
    assert imported.columns["observations"][2:5, 0].tolist() == expected
    assert imported.counts[0].filled == 3
    # Nothing is taken from another episode, or from before a gap.
    path = csv(tmp_path / "log.csv", *lines, "y,0,,0,1", "y,1,8,0,1")
    assert "column 's': no value in row 6 (1 left)" in refused(path, LAYOUT, Reading(fill=fill))
    gap = csv(
        tmp_path / "log.csv", *(f"x,{t},{s},0,1" for t, s in ((0, 0), (1, 1), (9, ""), (10, 3)))
    )
    assert "no value in row 2" in refused(gap, LAYOUT, Reading(fill=fill))
    both = read_tables([gap], LAYOUT, Reading(fill=fill, drop_missing=True))
    assert steps(both) == [(0, 1)]
    # What was done and what it was paid are never made up.
    paid = csv(tmp_path / "log.csv", "x,0,0,0,1", "x,1,1,0,", "x,2,2,0,1")
    assert "column 'r': no value in row 1" in refused(paid, LAYOUT, Reading(fill=fill))


def test_values_that_mean_no_value(tmp_path: Path) -> None:
    lines = ["x,0,0,0,1", "x,1,-999,0,1", "x,2,-999.0,0,1", "x,3,n.a.,0,1", "x,4,4,0,1"]
    path = csv(tmp_path / "log.csv", *lines)
    assert "row 3 is 'n.a.'" in refused(path, LAYOUT, Reading())
    imported = read_tables([path], LAYOUT, Reading(missing=("-999", "n.a."), fill="previous"))
    assert imported.columns["observations"][:, 0].tolist() == [0, 0, 0, 0, 4]


def test_a_german_spreadsheet(tmp_path: Path) -> None:
    lines = [f"0{day}.02.2024 00:00;{day},5;0,25;-1,0" for day in (3, 1, 2)]
    path = csv(tmp_path / "log.csv", *lines, heading="Zeit;Außen °C;Hub;Lohn", encoding="latin-1")
    layout = Layout(("Außen*",), ("Hub",), "Lohn", time="Zeit")
    assert "--time-format" in refused(path, layout, ONE)
    told: list[str] = []
    reading = Reading(one_episode=True, time_format="%d.%m.%Y %H:%M")
    imported = read_tables([path], layout, reading, tell=told.append)
    assert steps(imported) == [(1.5, 2.5), (2.5, 3.5)]
    assert imported.names["observations"] == ["Außen °C"]
    assert told[0] == f"{path}: read with separator ';', decimal sign ',', encoding cp1252"
    csv(path, *lines, "gestern;1,0;0,0;0,0", heading="Zeit;Außen °C;Hub;Lohn")
    assert "row 3 is 'gestern', which --time-format" in refused(path, layout, reading)


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_separators_and_encodings_are_found_out(
    tmp_path: Path, separator: str, encoding: str
) -> None:
    rows = [["x", str(t), f"{t}.5", "0", "1"] for t in range(3)]
    heading = separator.join(["id", "t", "sé", "a", "r"])
    path = csv(tmp_path / "log.csv", *map(separator.join, rows), heading=heading, encoding=encoding)
    imported = read_tables([path], Layout(("sé",), ("a",), "r", episode="id", time="t"))
    assert imported.columns["observations"][:, 0].tolist() == [0.5, 1.5, 2.5]


def test_a_dialect_may_be_given(tmp_path: Path) -> None:
    path = csv(tmp_path / "log.csv", '"1,5","0","1"', '"2,5","0","1"', heading="s,a,r")
    layout = Layout(("s",), ("a",), "r")
    assert "--decimal ','" in refused(path, layout, ONE)
    imported = read_tables([path], layout, Reading(one_episode=True, dialect=Dialect(decimal=",")))
    assert imported.columns["observations"][:, 0].tolist() == [1.5, 2.5]


def test_every_problem_of_every_file_is_reported_at_once(tmp_path: Path) -> None:
    first = csv(tmp_path / "1.csv", "x,0,1,0,1", "x,1,broken,0,1", "x,2,3,,1")
    second = csv(tmp_path / "2.csv", "x,0,1,0,1", heading="id,t,s,b,r")
    with pytest.raises(CharyError) as caught:
        read_tables([first, second, tmp_path / "3.csv"], LAYOUT)
    heading, *lines = str(caught.value).splitlines()
    assert heading == "3 files: 4 problems; nothing is written."
    for line, words in zip(
        lines,
        ("row 1 is 'broken'", "column 'a': no value in row 2", "no column matches --actions 'a'",
         "3.csv: no such file"),
        strict=True,
    ):  # fmt: skip
        assert line.startswith("  - ") and words in line


def test_lines_with_too_few_cells_are_counted(tmp_path: Path) -> None:
    path = csv(tmp_path / "log.csv", "x,0,1,0,1", "x,1,1,0", "x,2,1", "x,3,1,0,1")
    message = refused(path, LAYOUT, Reading())
    assert "line 'x,1,1,0' has 4 cells, but the heading has 5, and 1 more such line(s)" in message


def test_categories_of_parquet(tmp_path: Path) -> None:
    """Dictionary columns in several chunks, as pandas and polars write them."""

    def column(values: list[Any]) -> Any:
        halves = [pyarrow.array(part).dictionary_encode() for part in (values[:3], values[3:])]
        return pyarrow.chunked_array(halves)

    table = {
        "id": column(["pump", "pump", "pump", "fan", "fan", "fan"]),
        "level": column([3, 1, 2, 2, 2, 3]),
        "mode": column(["on", "off", "on", "off", "on", "on"]),
        "flag": pyarrow.array([False, False, True, False, None, True]),
        "a": [0.0] * 6,
        "r": pyarrow.array([1, 2, 3, 4, 5, 6], pyarrow.decimal128(10, 2)),
    }
    path = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    layout = Layout(("level",), ("a",), "r", episode="id")
    imported = read_tables([path], layout)
    assert imported.columns["observations"][:, 0].tolist() == [3, 1, 2, 2, 2, 3]
    assert imported.columns["timeouts"].tolist() == [False, False, True, False, False, True]
    words = Layout(("level", "mode"), ("a",), "r", episode="id")
    message = refused(path, words, Reading())
    assert "column 'mode' must hold numbers, but row 0 is 'on'" in message
    assert "a column of 0 and 1 for each word" in message
    flagged = Layout(("level",), ("a",), "r", episode="id", terminal="flag")
    assert "column 'flag': no value in row 4" in refused(path, flagged, Reading())


def test_names_and_rows_travel_with_the_file(tmp_path: Path) -> None:
    lines = ["x,1,1,0,1", "x,0,0,0,1", "x,2,2,0,1"]
    imported = read_tables([csv(tmp_path / "log.csv", *lines)], LAYOUT)
    dataset = Dataset.from_columns(
        imported.columns,
        name="log",
        observation_names=imported.names["observations"],
        action_names=imported.names["actions"],
    )
    for ending in (".npz", ".hdf5", ".columns"):
        formats.write(dataset, tmp_path / f"log{ending}")
        back = formats.read(tmp_path / f"log{ending}")
        assert (back.observation_names, back.action_names) == (("s",), ("a",))
        assert back.source_rows is not None and back.source_rows.tolist() == [1, 0]
        assert back.times is not None and back.times.tolist() == [0.0, 1.0]
        assert back.fingerprint == dataset.fingerprint
        assert not set(back.metadata) & {"observation_names", "action_names"}
    formats.write(dataset, tmp_path / "back.csv")
    assert (tmp_path / "back.csv").read_text().splitlines()[0] == (
        '"s","a","rewards","next s","terminals","timeouts"'
    )
