"""Datasets from frames of pandas and polars, and from Arrow's tables."""

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import chary
from chary.data.dataset import Dataset
from chary.data.formats.frames import in_python
from chary.errors import CharyError

ROWS = 7
DAYS = [3, 3, 3, 1, 1, 1, 1]
INDOOR = [20.0, 20.5, 21.0, 18.0, 18.5, 19.0, 19.5]
POWER = [0.0, 400.0, 4000.0, 10.0, 20.0, 30.0, 40.0]
NOON = datetime.datetime(2024, 1, 31, 12)
QUARTER = datetime.timedelta(minutes=15)
TABLE: dict[str, Any] = {
    "day": DAYS,
    "when": [NOON + i * QUARTER for i in range(ROWS)],
    "temp_in": INDOOR,
    "temp_out": [t - 15.0 for t in INDOOR],
    "power": POWER,
    "reward": [-float(i) for i in range(ROWS)],
    "on": [True, False, True, True, False, True, True],
    "note": list("abcdefg"),
}
ASKED: dict[str, Any] = {
    "observations": "temp_*", "actions": ["power"], "reward": "reward", "episode": "day",
    "action_low": 0, "action_high": 4000,
}  # fmt: skip


class Stream:
    """Something that only speaks Arrow."""

    def __init__(self, table: Any):
        self._table = pyarrow.table(table)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pandas.DataFrame,
    "polars": lambda table: polars.DataFrame(table, strict=False),
    "pyarrow": pyarrow.table,
}


@pytest.fixture(params=list(KINDS))
def frame(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes a frame of each library, with some columns replaced."""
    return lambda **columns: KINDS[request.param]({**TABLE, **columns})


def plain() -> Dataset:
    return chary.dataset(
        observations=np.stack([TABLE["temp_in"], TABLE["temp_out"]], axis=1),
        actions=POWER,
        rewards=TABLE["reward"],
        episodes=DAYS,
        action_low=0,
        action_high=4000,
    )


def refused(frame: Any, **changes: Any) -> str:
    with pytest.raises(CharyError) as caught:
        chary.from_frame(frame, **{**ASKED, **changes})
    assert "--" not in str(caught.value)
    return str(caught.value)


def test_frames_give_what_arrays_give(frame: Callable[..., Any]) -> None:
    made = chary.from_frame(frame(), **ASKED)
    assert made.fingerprint == plain().fingerprint
    assert made.observation_names == ("temp_in", "temp_out") and made.action_names == ("power",)
    assert made.source_rows is not None and made.source_rows.tolist() == [0, 1, 3, 4, 5]


def test_whatever_speaks_arrow_is_a_frame() -> None:
    batch = pyarrow.table(TABLE).to_batches()[0]
    for each in (Stream(TABLE), batch):
        assert chary.from_frame(each, **ASKED).fingerprint == plain().fingerprint


PANDAS_TYPES = {
    "temp_in": ["float32", "Float64", "float64[pyarrow]", "object", "category"],
    "power": ["int16", "Int64", "uint16", "object"],
    "day": ["int8", "Int64", "str", "object", "category"],
}


@pytest.mark.parametrize(
    ("column", "dtype"), [(name, kind) for name, kinds in PANDAS_TYPES.items() for kind in kinds]
)
def test_types_of_pandas(column: str, dtype: str) -> None:
    made = chary.from_frame(pandas.DataFrame(TABLE).astype({column: dtype}), **ASKED)
    assert made.fingerprint == plain().fingerprint


POLARS_TYPES = {
    "temp_in": [polars.Float32, polars.Decimal(10, 2), polars.String],
    "power": [polars.Int16, polars.UInt64],
    "day": [polars.Int8, polars.String, polars.Categorical, polars.Enum(["1", "3"])],
}


@pytest.mark.parametrize(
    ("column", "dtype"), [(name, kind) for name, kinds in POLARS_TYPES.items() for kind in kinds]
)
def test_types_of_polars(column: str, dtype: Any) -> None:
    column_of = polars.col(column)
    if dtype == polars.Categorical or isinstance(dtype, polars.Enum):
        column_of = column_of.cast(polars.String)
    made = chary.from_frame(polars.DataFrame(TABLE).with_columns(column_of.cast(dtype)), **ASKED)
    assert made.fingerprint == plain().fingerprint


def test_booleans_are_flags_and_observations(frame: Callable[..., Any]) -> None:
    ends = [False, False, True, False, False, False, True]
    asked = {**ASKED, "observations": ["on"], "terminal": "ended"}
    made = chary.from_frame(frame(ended=ends), **asked)
    assert made.terminals.tolist() == ends
    assert made.observations[:, 0].tolist() == [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]


def test_a_column_of_lists_is_a_matrix(frame: Callable[..., Any]) -> None:
    both = [[t, t - 15.0] for t in INDOOR]
    made = chary.from_frame(frame(both=both), **{**ASKED, "observations": "both"})
    assert made.fingerprint == plain().fingerprint
    assert made.observation_names == ("both[0]", "both[1]")


def test_times_put_rows_in_order_and_show_gaps(
    frame: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    when = [NOON + i * QUARTER for i in (0, 1, 2, 0, 2, 1, 5)]
    made = chary.from_frame(frame(when=when), **ASKED, time="when")
    # Day 1: rows 3, 5, 4 are a quarter of an hour apart; row 6 comes an hour later.
    assert made.source_rows is not None and made.source_rows.tolist() == [0, 1, 3, 5]
    told = capsys.readouterr().err
    assert "chary: frame: a row every 15 min; episodes are cut at 1 gap(s)" in told
    assert "max_gap" in told and "--" not in told
    whole = chary.from_frame(frame(when=when), **ASKED, time="when", max_gap="2h")
    assert whole.source_rows is not None and whole.source_rows.tolist() == [0, 1, 3, 5, 4]


def test_missing_values_are_refused_dropped_or_filled(
    frame: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    holes = frame(temp_in=[*INDOOR[:4], None, *INDOOR[5:]])
    said = "column 'temp_in': no value in row 4 (1 missing in all). Leave such rows out with "
    assert f"frame: {said}drop_missing=True, or fill them in with fill='previous'." == refused(
        holes
    )
    assert "no value in row 4" in refused(frame(temp_in=[*INDOOR[:4], float("nan"), *INDOOR[5:]]))
    # No transition spans the row that is left out: row 3 has no successor.
    dropped = chary.from_frame(holes, **ASKED, drop_missing=True)
    assert dropped.source_rows is not None and dropped.source_rows.tolist() == [0, 1, 5]
    assert "1 of 7 rows lack a value and are left out (temp_in 1)" in capsys.readouterr().err
    filled = chary.from_frame(holes, **ASKED, fill="previous")
    assert filled.observations[:, 0].tolist() == [20.0, 20.5, 18.0, 18.0, 19.0]
    sentinel = frame(temp_in=[*INDOOR[:4], -999.0, *INDOOR[5:]])
    again = chary.from_frame(sentinel, **ASKED, fill="previous", missing=[-999])
    assert again.fingerprint == filled.fingerprint


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "object"])
def test_what_pandas_has_for_no_value(dtype: str) -> None:
    column = pandas.array([1, 0, None, 1, 0, 1, 0], dtype=dtype)
    holes = pandas.DataFrame(TABLE).assign(power=column)
    assert "column 'power': no value in row 2" in refused(holes)
    times = pandas.Series(TABLE["when"]).where(pandas.Series(range(ROWS)) != 2)
    assert "column 'when': no value in row 2" in refused(
        pandas.DataFrame(TABLE).assign(when=times), time="when"
    )


@pytest.mark.parametrize(
    ("columns", "changes", "message"),
    [
        ({}, {"reward": "rewards"}, "no column matches reward 'rewards'. The nearest are reward"),
        ({}, {"observations": ["zzz"]}, "no column matches observations 'zzz'. It has day, when"),
        ({}, {"observations": ["temp_in", "temp_*"]}, "column 'temp_in' is taken twice"),
        ({}, {"actions": "temp_in"}, "by observations 'temp_*' and by actions 'temp_in'"),
        ({}, {"observations": ()}, "observations, actions and reward must each name a column"),
        ({}, {"episode": None}, "where episodes end must be known"),
        ({}, {"reward": "note"}, "column 'note' must hold numbers, but row 0 is 'a' (7 rows"),
        ({}, {"reward": "when"}, "column 'when' must hold numbers, but holds times"),
        ({}, {"time": "note"}, "Say how to read it: time_format '%d.%m.%Y %H:%M'"),
        ({}, {"fill": "previous", "max_gap": 3}, "max_gap is about a column of times"),
        ({"day": [3, 1, 3, 1, 1, 1, 1]}, {}, "episode 3 comes back in row 2"),
        ({"temp_in": [np.inf, *INDOOR[1:]]}, {}, "column 'temp_in' has no finite number in row 0"),
        (
            {"on": [0, 0, 2, 0, 0, 0, 0]},
            {"terminal": "on"},
            "must be true or false, but row 2 is 2",
        ),
        (
            {},
            {"action_low": None, "action_high": None},
            "actions lie in 0 to 4000, outside [-1, 1]",
        ),
        ({}, {"action_high": 300}, "1 action(s) outside [0, 300], first in row"),
    ],
)
def test_wrong_frames_are_one_message(
    frame: Callable[..., Any], columns: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    assert message in refused(frame(**columns), **changes)


def test_all_problems_are_told_at_once(frame: Callable[..., Any]) -> None:
    told = refused(frame(), observations=["temp_inn"], reward="note")
    assert told.startswith("frame: 2 problems.\n  - no column matches observations 'temp_inn'")
    assert "\n  - column 'note' must hold numbers" in told


def test_two_columns_of_one_name() -> None:
    twice = "two columns are called 'temp_in'. Rename one of them."
    table = pandas.DataFrame(TABLE)
    assert twice in refused(table.rename(columns={"temp_out": "temp_in"}))
    names = [name.replace("temp_out", "temp_in") for name in TABLE]
    assert twice in refused(pyarrow.table(TABLE).rename_columns(names))
    assert twice not in refused(table.rename(columns={"temp_out": "temp_inn"}), reward="no")


def test_rows_count_from_0_whatever_the_index() -> None:
    for index in (range(70, 0, -10), TABLE["when"], list("gfedcba")):
        other = pandas.DataFrame(TABLE).set_index(pandas.Index(index))
        assert chary.from_frame(other, **ASKED).fingerprint == plain().fingerprint
        # A nameless index is no column, and no pattern takes it.
        asked = {**ASKED, "observations": "[!prdwon]*"}
        assert chary.from_frame(other, **asked).observation_names == ("temp_in", "temp_out")
        worse = other.assign(temp_in=[*INDOOR[:6], None])
        assert "no value in row 6" in refused(worse)


def test_labels_that_are_no_text() -> None:
    table = pandas.DataFrame(TABLE).rename(columns={"temp_in": 0, "temp_out": 1})
    made = chary.from_frame(table, **{**ASKED, "observations": ["0", "1"]})
    assert made.fingerprint == plain().fingerprint and made.observation_names == ("0", "1")


def test_columns_that_nobody_asked_for_do_no_harm() -> None:
    odd = pandas.DataFrame(TABLE).assign(mixed=[1, "two", None, object(), 5j, [], {}])
    assert chary.from_frame(odd, **ASKED).fingerprint == plain().fingerprint
    assert "column 'mixed' must hold numbers, but row 1 is 'two'" in refused(odd, reward="mixed")
    ids = pandas.DataFrame(TABLE).assign(
        day=pandas.Series([1, 1, 1, "b", "b", "b", "b"], dtype=object)
    )
    assert "'day' holds ids of several kinds. Make all of them text" in refused(ids)


@pytest.mark.parametrize("kind", list(KINDS))
def test_empty_frames(kind: str) -> None:
    empty = KINDS[kind]({name: np.zeros(0) for name in TABLE})
    assert refused(empty) == "frame: holds no rows."
    assert "It has no columns" in refused(KINDS[kind]({}))


def test_what_is_no_frame_is_refused() -> None:
    assert "of type ndarray, which is not a frame" in refused(np.zeros(3))
    assert "of type dict, which is not a frame" in refused(TABLE)
    assert "is not computed yet. Give frame.collect()." in refused(polars.DataFrame(TABLE).lazy())


def test_options_become_arguments() -> None:
    said = "Leave them out with --drop-missing, or fill them with --fill previous; see --max-gap."
    assert in_python(said) == (
        "Leave them out with drop_missing=True, or fill them with fill='previous'; see max_gap."
    )
