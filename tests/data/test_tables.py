from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import h5py
import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from chary.data import formats, load
from chary.data.columns import COLUMNS
from chary.data.dataset import Dataset
from chary.data.formats.layout import Layout, Reading, action_bounds, choose
from chary.data.formats.tables import Source, read_one, read_tables
from chary.errors import CharyError

LAYOUT = Layout(("s_*",), ("a",), "r", episode="id")
ENDINGS = [".csv", ".parquet", ".npz", ".hdf5"]


def write_table(path: Path, columns: dict[str, Any]) -> Path:
    if path.suffix == ".npz":
        made: dict[str, Any] = {name: np.asarray(values) for name, values in columns.items()}
        np.savez(path, **made)
    elif path.suffix == ".hdf5":
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file[name] = np.asarray(values)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(pyarrow.table(columns), path)
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def a_log() -> dict[str, Any]:
    """Two episodes of three rows; every number tells its place."""
    return {
        "id": [4, 4, 4, 7, 7, 7],
        "t": [0, 1, 2, 0, 1, 2],
        "s_10": [10.0, 11.0, 12.0, 13.0, 14.0, 15.0],
        "s_2": [20.0, 21.0, 22.0, 23.0, 24.0, 25.0],
        "a": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5],
        "r": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "done": [False, False, True, False, False, False],
    }


def refused(path: Path, layout: Layout = LAYOUT) -> str:
    with pytest.raises(CharyError) as caught:
        read_tables([path], layout)
    message = str(caught.value)
    assert "\n" not in message or "problems; nothing is written.\n  - " in message
    return message


@pytest.mark.parametrize("ending", ENDINGS)
def test_named_columns_become_a_dataset(tmp_path: Path, ending: str) -> None:
    path = write_table(tmp_path / f"log{ending}", a_log())
    told: list[str] = []
    columns = read_tables(
        [path], Layout(("s_*",), ("a",), "r", episode="id", terminal="done"), tell=told.append
    ).columns
    np.testing.assert_array_equal(columns["observations"][:, 0], a_log()["s_2"])
    np.testing.assert_array_equal(columns["observations"][:, 1], a_log()["s_10"])
    np.testing.assert_array_equal(columns["rewards"], a_log()["r"])
    np.testing.assert_array_equal(columns["terminals"], a_log()["done"])
    assert columns["timeouts"].tolist() == [0, 0, 0, 0, 0, 1]
    assert f"{path}: --observations takes s_2, s_10" in told
    dataset = Dataset.from_columns(columns, name="log")
    # The cut row has no known successor and is left out.
    assert dataset.episode_lengths.tolist() == [3, 2]
    assert dataset.next_observations[3].tolist() == [24.0, 14.0]


def test_columns_keep_the_files_order_but_numbers_count(tmp_path: Path) -> None:
    names = ["pos_y", "q10", "pos_x", "q9", "q1_2", "q1_1"]
    log = {**{name: [float(i)] * 2 for i, name in enumerate(names)}, "u": [0.0] * 2, "r": [1.0] * 2}
    path = write_table(tmp_path / "log.csv", {**log, "cut": [0, 1]})
    columns = read_tables([path], Layout(("[pq]*",), ("u",), "r", timeout="cut")).columns
    found = [names[int(index)] for index in columns["observations"][0]]
    assert found == ["pos_y", "q9", "q10", "pos_x", "q1_1", "q1_2"]


@pytest.mark.parametrize("ending", [".npz", ".hdf5", ".parquet"])
def test_a_matrix_may_be_named_whole(tmp_path: Path, ending: str) -> None:
    matrix = np.arange(12.0).reshape(6, 2)
    log: dict[str, Any] = {"obs": matrix, **a_log()}
    if ending == ".parquet":
        log["obs"] = matrix.tolist()
    path = write_table(tmp_path / f"log{ending}", log)
    columns = read_tables([path], Layout(("obs", "s_2"), ("a",), "r", episode="id")).columns
    np.testing.assert_array_equal(columns["observations"][:, :2], matrix)
    assert columns["observations"].shape == (6, 3)


def test_time_puts_rows_in_order_even_of_episodes_logged_at_once(tmp_path: Path) -> None:
    log = {name: np.asarray(values) for name, values in a_log().items()}
    mixed = np.array([3, 2, 0, 5, 1, 4])
    path = write_table(tmp_path / "log.csv", {name: column[mixed] for name, column in log.items()})
    layout = Layout(("s_*",), ("a",), "r", episode="id", time="t")
    columns = read_tables([path], layout).columns
    # Episode 7 came first in the file.
    assert columns["rewards"].tolist() == [4, 5, 6, 1, 2, 3]
    assert columns["timeouts"].tolist() == [0, 0, 1, 0, 0, 1]
    assert "episode 7 comes back in row 3" in refused(path)
    twice = write_table(tmp_path / "twice.csv", {**a_log(), "t": [0, 1, 1, 0, 1, 2]})
    assert "episode 4 has two rows at time 1, one of them row 2" in refused(twice, layout)


def test_ids_may_be_words_and_times_dates(tmp_path: Path) -> None:
    days = np.array(["2024-01-03", "2024-01-02", "2024-01-01"] * 2, "datetime64[s]")
    log = {**a_log(), "id": ["pump", "pump", "pump", "fan", "fan", "fan"], "t": days}
    path = write_table(tmp_path / "log.csv", log)
    columns = read_tables([path], Layout(("s_*",), ("a",), "r", episode="id", time="t")).columns
    assert columns["rewards"].tolist() == [3, 2, 1, 6, 5, 4]


def test_files_follow_each_other_and_episodes_end_with_them(tmp_path: Path) -> None:
    first = write_table(tmp_path / "1.csv", {**a_log(), "id": [0] * 6})
    second = write_table(tmp_path / "2.npz", {**a_log(), "id": [0] * 6})
    columns = read_tables([first, second], LAYOUT).columns
    assert columns["timeouts"].tolist() == ([0] * 5 + [1]) * 2
    flagged = read_tables([first, second], Layout(("s_*",), ("a",), "r", terminal="done")).columns
    assert flagged["terminals"].tolist() == ([0, 0, 1, 0, 0, 0]) * 2
    assert flagged["timeouts"].tolist() == ([0] * 5 + [1]) * 2
    wider = write_table(tmp_path / "3.csv", {**a_log(), "s_3": [0.0] * 6})
    with pytest.raises(
        CharyError, match=r"3\.csv: has 3 columns of observations, but .*1\.csv has 2"
    ):
        read_tables([first, wider], LAYOUT)


@pytest.mark.parametrize(
    ("change", "layout", "words"),
    [
        ({}, Layout(("s_*",), ("a",), "r"), "name the column of episode ids with --episode"),
        ({"t": [0, 2, 1, 0, 1, 2]}, Layout(("s_*",), ("a",), "r", terminal="done", time="t"),
         "'t' goes back in row 2, inside an episode"),
        ({}, Layout((), ("a",), "r", episode="id"), "must each name a column"),
        ({}, Layout(("z_*",), ("a",), "r", episode="id"), "no column matches --observations 'z_*'"),
        ({}, Layout(("s_*",), ("a",), "dine", episode="id"), "The nearest are done"),
        ({}, Layout(("s_*", "s_2"), ("a",), "r", episode="id"), "'s_2' is taken twice: by --obs"),
        ({}, Layout(("?",), ("a",), "r", episode="id"), "'a' is taken twice: by --observations '?'"),
        ({}, Layout(("s_2",), ("a",), "s_*", episode="id"), "'s_2' is taken twice"),
        ({}, Layout(("s_2",), ("a",), "[rt]", episode="id"), "--reward is one column"),
        ({"s_2": ["1", "2", "x", "3", "4", "5"]}, LAYOUT, "'s_2' must hold numbers, but row 2 is 'x'"),
        ({"id": [4, 4, 7, 7, 4, 4]}, LAYOUT, "episode 4 comes back in row 4"),
        ({"done": [0, 1, 0, 0, 0, 0]}, Layout(("s_*",), ("a",), "r", episode="id", terminal="done"),
         "the task ended in row 1, but episode 4 continues"),
        ({"done": [0, 0, 2, 0, 0, 0]}, Layout(("s_*",), ("a",), "r", episode="id", terminal="done"),
         "'done' must be true or false, but row 2 is 2"),
        ({"r": [1.0, float("inf"), 1.0, 1.0, 1.0, 1.0]}, LAYOUT, "'r' has no finite number in row 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_said(
    tmp_path: Path, change: dict[str, Any], layout: Layout, words: str
) -> None:
    path = write_table(tmp_path / "log.csv", {**a_log(), **change})
    assert words in refused(path, layout)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_missing_value_is_named_by_column_and_row(tmp_path: Path, ending: str) -> None:
    values: list[float | None] = [0.0, 1.0, 2.0, None, None, 5.0]
    path = write_table(tmp_path / f"log{ending}", {**a_log(), "s_2": values})
    assert "column 's_2': no value in row 3 (2 missing in all)" in refused(path)
    # In a column that is not taken, nothing is amiss.
    found = read_tables([path], Layout(("s_10",), ("a",), "r", episode="id"))
    assert found.names["observations"] == ["s_10"]


def test_arrays_of_unequal_length_and_of_odd_shape(tmp_path: Path) -> None:
    short = write_table(tmp_path / "short.npz", {**a_log(), "a": [0.0] * 5})
    assert "columns of unequal length" in refused(short) and "a 5" in refused(short)
    both = write_table(tmp_path / "both.npz", {**a_log(), "a": [np.nan] * 5})
    assert "finite" not in refused(both) and "no value" not in refused(both)  # not even looked at
    images = write_table(tmp_path / "images.npz", {**a_log(), "s_2": np.zeros((6, 4, 4))})
    assert "'s_2' has shape (6, 4, 4)" in refused(images)
    nan = write_table(tmp_path / "nan.npz", {**a_log(), "s_2": [0, 0, 0, 0, np.nan, 0]})
    assert "'s_2': no value in row 4" in refused(nan)
    ragged = {**a_log(), "s_2": [[1.0], [1.0], [1.0, 2.0], [1.0], [1.0], [1.0]]}
    path = write_table(tmp_path / "ragged.parquet", ragged)
    assert "'s_2': a list of 2 in row 2, but of 1 in row 0" in refused(path)


def test_a_table_that_is_none(tmp_path: Path) -> None:
    for name, content in (("a.csv", b""), ("b.parquet", b"PAR1 no"), ("c.npz", b"x")):
        path = tmp_path / name
        path.write_bytes(content)
        assert "not a readable" in refused(path)
    (tmp_path / "twice.csv").write_text("r,r\n1,2\n")
    assert "two columns are called 'r'" in refused(tmp_path / "twice.csv")
    (tmp_path / "empty.csv").write_text("id,s_1,a,r\n")
    assert "holds no rows" in refused(tmp_path / "empty.csv")
    assert "no such file" in refused(tmp_path / "nowhere.csv")
    (tmp_path / "log.txt").write_text("1")
    assert "cannot tell the format from '.txt'" in refused(tmp_path / "log.txt")


def test_bounds_of_actions() -> None:
    small, large = np.array([[-0.5, 1.0], [0.2, 0.0]]), np.array([[-3.0, 1.0], [2.0, 0.0]])
    low, high = action_bounds(small, (), ())
    assert (low.tolist(), high.tolist()) == ([-1, -1], [1, 1])
    low, high = action_bounds(large, ("-4",), ("4", "2"))
    assert (low.tolist(), high.tolist()) == ([-4, -4], [4, 2])
    low, high = action_bounds(large, ("data",), ("data",))
    assert (low.tolist(), high.tolist()) == ([-3, 0], [2, 1])
    with pytest.raises(CharyError, match=r"--action-low and --action-high.* between -3 0 and 2 1"):
        action_bounds(large, (), ())
    with pytest.raises(CharyError, match="must be known"):
        action_bounds(small, ("-1",), ())
    with pytest.raises(CharyError, match="3 numbers for 2 action"):
        action_bounds(large, ("1", "2", "3"), ("4",))
    with pytest.raises(CharyError, match="numbers, or `data`"):
        action_bounds(large, ("low",), ("4",))


def test_reading_a_table_directly_says_to_import_it(tmp_path: Path) -> None:
    for ending in (".csv", ".parquet"):
        path = write_table(tmp_path / f"log{ending}", a_log())
        with pytest.raises(CharyError, match="chary data import"):
            load(path)


def test_without_pyarrow_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_table(tmp_path / "log.csv", a_log())

    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("chary.data.formats.arrow.import_module", absent)
    assert "pip install pyarrow" in refused(path)


@st.composite
def datasets(draw: Callable[..., Any]) -> dict[str, np.ndarray]:
    """Columns of small datasets of every shape, with the whole range of float32."""
    size, observation, action = (draw(st.integers(1, top)) for top in (12, 3, 2))
    numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)

    def matrix(*shape: int, of: st.SearchStrategy[Any] = numbers) -> np.ndarray:
        return draw(arrays.arrays(np.float32, shape, elements=of))

    terminals = draw(arrays.arrays(bool, size))
    terminals[-1] = draw(st.booleans())
    return {
        "observations": matrix(size, observation),
        "actions": matrix(size, action, of=st.floats(-2, 3, width=32)),
        "rewards": matrix(size),
        "next_observations": matrix(size, observation),
        "terminals": terminals,
        "timeouts": draw(arrays.arrays(bool, size)) | (np.arange(size) == size - 1),
    }


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz", ".hdf5", ".h5"])
def test_every_format_gives_back_what_was_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data{ending}"

    @settings(
        max_examples=20,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(datasets())
    def round_trip(drawn: dict[str, np.ndarray]) -> None:
        dataset = Dataset.from_columns(drawn, name="made", action_low=-2.0, action_high=3.0)
        formats.write(dataset, path)
        if ending in (".csv", ".parquet"):
            layout = Layout(
                ("observations_*",), ("actions_*",), "rewards", ("next_observations_*",),
                terminal="terminals", timeout="timeouts",
            )  # fmt: skip
            columns = read_tables([path], layout).columns
            back = Dataset.from_columns(columns, name="made", action_low=-2.0, action_high=3.0)
        else:
            back = formats.read(path)
        for column in (*COLUMNS, "action_low", "action_high"):
            np.testing.assert_array_equal(
                getattr(back, column), getattr(dataset, column), strict=True
            )

    round_trip()


def far(kind: Any) -> Any:
    return pyarrow.array([2**62 + i for i in range(6)], pyarrow.int64()).cast(kind)


LISTS = [[float(i), 1.0] for i in range(6)]
WORDS = [str(i) for i in range(6)]
KINDS = {
    "dictionary of text": pyarrow.array(WORDS).dictionary_encode(),
    "dictionary of large text": pyarrow.array(WORDS, pyarrow.large_string()).dictionary_encode(),
    "view of text": pyarrow.array(WORDS, pyarrow.string_view()),
    "large list": pyarrow.array(LISTS, pyarrow.large_list(pyarrow.float64())),
    "list of fixed size": pyarrow.array(LISTS, pyarrow.list_(pyarrow.float32(), 2)),
    "list of lists": pyarrow.array([[row, row] for row in LISTS]),
    "list of text": pyarrow.array([[word] for word in WORDS]),
    "list of structs": pyarrow.array([[{"k": 1.0}]] * 6),
    "map": pyarrow.array([[("k", 1.0)]] * 6, pyarrow.map_(pyarrow.string(), pyarrow.float64())),
    "bytes": pyarrow.array([b"\xff\x00"] * 6),
    "view of bytes": pyarrow.array([b"\xff\x00"] * 6, pyarrow.binary_view()),
    "bytes of fixed size": pyarrow.array([b"\xff\x00"] * 6, pyarrow.binary(2)),
    "struct": pyarrow.array([{"k": 1.0}] * 6),
    "far days": pyarrow.array(range(2**31 - 6, 2**31), pyarrow.int32()).cast(pyarrow.date32()),
    "far times": far(pyarrow.timestamp("us")),
    "far times somewhere": far(pyarrow.timestamp("us", tz="No/Where")),
    "far durations": far(pyarrow.duration("s")),
    "times of a day": pyarrow.array([2**60 + i for i in range(6)]).cast(pyarrow.time64("ns")),
    "ends of time": pyarrow.array([-(2**63) + 1, 2**63 - 1] * 3).cast(pyarrow.timestamp("us")),
    "beyond all numbers": pyarrow.array([2**64 - i for i in range(1, 7)], pyarrow.uint64()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_column_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(pyarrow.table({**a_log(), "c": KINDS[kind]}), path)
    read, refusals = [], []
    for role in ("observations", "reward", "episode", "time", "terminal"):
        given = {"observations": ("s_2",), "reward": "r", "episode": "id"}
        given |= {role: ("c",) if role == "observations" else "c"}
        try:
            read_tables([path], Layout(actions=("a",), **given))  # pyright: ignore[reportArgumentType]
            read.append(role)
        except CharyError as error:
            refusals.append(str(error).removeprefix(f"{path}: "))
    assert not any("cannot be read for" in words or str(path) in words for words in refusals)
    if kind.startswith(("dictionary", "view of text")):
        assert read == ["observations", "reward", "episode"]
    elif "list" in kind and "struct" not in kind:
        assert read[:1] == ["observations"]
    elif kind.startswith("far"):
        assert read == ["episode", "time"]


def test_lists_of_lists_are_flattened(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pyarrow.parquet.write_table(
        pyarrow.table({**a_log(), "c": KINDS["list of lists"]}), path, row_group_size=4
    )
    imported = read_tables([path], Layout(("c",), ("a",), "r", episode="id"))
    assert imported.columns["observations"][2].tolist() == [2.0, 1.0, 2.0, 1.0]
    assert imported.names["observations"] == ["c[0]", "c[1]", "c[2]", "c[3]"]


def test_one_long_word_is_not_spelled_out_for_every_row(tmp_path: Path) -> None:
    """4 GB of text, if it were; the file has a few kilobytes."""
    rows, path = 2000, tmp_path / "log.parquet"
    word = "0" * 2**20
    words = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [word])
    table = {
        "s_1": words,
        "id": words,
        "a": np.zeros(rows),
        "r": np.arange(rows),
    }
    plain = pyarrow.table(table).replace_schema_metadata(None)
    pyarrow.parquet.write_table(plain, path, store_schema=False)
    imported = read_tables([path], LAYOUT)
    assert imported.columns["observations"].tolist() == [[0.0]] * rows
    assert imported.columns["timeouts"].sum() == 1
    assert pyarrow.default_memory_pool().max_memory() < 2**29


def test_a_table_of_too_many_rows_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_table(
        tmp_path / "log.parquet",
        dict.fromkeys(("s_1", "a", "r", "id"), np.zeros(2 * 10**6)),
    )
    assert path.stat().st_size < 2**20
    monkeypatch.setattr("chary.data.formats.guard.host_memory", lambda: 1e7)
    assert "needs 0.1 GB of memory" in refused(path)


def test_names_are_shown_as_text(tmp_path: Path) -> None:
    told: list[str] = []
    odd = "s_\x1b[31m\n\x00\u202e"
    path = write_table(tmp_path / "log.parquet", {**a_log(), odd: np.zeros(6), "s_bad": ["x"] * 6})
    with pytest.raises(CharyError) as caught:
        read_tables([path], Layout((odd, "s_bad"), ("a",), "r", episode="id"), tell=told.append)
    read_tables([path], Layout((odd,), ("a",), "r", episode="id"), tell=told.append)
    assert any("s_\\x1b[31m\\n\\x00" in line for line in told)
    for line in (str(caught.value), *told):
        assert line.isprintable()
    dataset = Dataset.from_columns(
        {
            **{key: np.zeros((3, 1)) for key in ("observations", "actions", "next_observations")},
            **{key: np.ones(3) for key in ("rewards", "terminals", "timeouts")},
        },
        name="\x1b]0;title\x07",
        metadata={"\x00": "\ud800"},
        observation_names=[odd],
    )
    for ending in (".npz", ".hdf5", ".columns"):
        formats.write(dataset, tmp_path / f"odd{ending}")
        back = formats.read(tmp_path / f"odd{ending}")
        texts = (back.name, *back.observation_names, *back.metadata, *back.metadata.values())
        assert all(text.isprintable() for text in texts) and len(texts) == 4


def test_many_columns_cost_no_more_each_than_a_few() -> None:
    """Pairs of 20,000 names would take most of a minute."""
    names = [f"s_{i:x}" for i in range(20_000)]
    log = {key: np.asarray(values) for key, values in a_log().items()}
    source = Source([*names[500:], *log], lambda asked: {name: log[name] for name in asked})
    start = process_time()
    problems: list[str] = []
    assert read_one("log", lambda: source, LAYOUT_OF_ONE, Reading(), problems) is not None
    taken = choose("log", names, Layout(("s_*",), (), ""), problems)
    assert len(taken["--observations"]) == len(names)
    choose("log", names, Layout(("nothing",), (), ""), problems)
    assert len(problems) == 1 and process_time() - start < 5


LAYOUT_OF_ONE = Layout(("s_10",), ("a",), "r", episode="id")


@pytest.mark.parametrize("ending", [".npz", ".hdf5"])
def test_single_numbers_and_complex_ones_are_no_columns(tmp_path: Path, ending: str) -> None:
    log = {key: np.asarray(values) for key, values in a_log().items()}
    path = write_table(tmp_path / f"log{ending}", {**log, "s_1": np.asarray(1.0)})
    assert "columns of unequal length" in refused(path)
    if ending == ".npz":
        path = write_table(path, {**log, "s_1": np.full(6, 1j)})
        assert "column 's_1' must hold numbers, but row 0 is" in refused(path)
