"""Rows at the client, as a list, as a table of Arrow and of pandas."""

import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from stoker.api.jobs import RowsAnswer
from stoker.client.rows import Rows, cell_text, rows_of
from stoker.core.errors import InvalidInput
from stoker.core.rows import Column, Row

STRUCT = {
    "type": "struct",
    "fields": [{"name": "a", "type": "long"}, {"name": "a", "type": "date"}],
}
MAP = {"type": "map", "keyType": "string", "valueType": {"type": "array", "elementType": "long"}}
AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
DAY = date(2026, 1, 2)
VALUES: list[tuple[Any, Any, Any]] = [
    ("boolean", True, pyarrow.bool_()),
    ("byte", 1, pyarrow.int8()),
    ("integer", 1, pyarrow.int32()),
    ("long", 2**60, pyarrow.int64()),
    ("double", 0.5, pyarrow.float64()),
    ("decimal(10,2)", Decimal("1.10"), pyarrow.decimal128(10, 2)),
    ("string", "ö", pyarrow.string()),
    ("binary", b"\xff", pyarrow.binary()),
    ("date", DAY, pyarrow.date32()),
    ("timestamp", AT, pyarrow.timestamp("us", tz="UTC")),
    ("timestamp_ntz", AT.replace(tzinfo=None), pyarrow.timestamp("us")),
    ("time(6)", time(1, 2), pyarrow.time64("us")),
    ("interval day to second", timedelta(days=1), pyarrow.duration("us")),
    ("void", None, pyarrow.null()),
]


def rows(*columns: tuple[str, Any], values: list[tuple[Any, ...]]) -> Rows:
    names = [name for name, _ in columns]
    return Rows(
        [Row(names, value) for value in values],
        [Column(name=name, type=type_) for name, type_ in columns],
    )


@pytest.mark.parametrize(("type_", "value", "arrow_type"), VALUES)
def test_each_type_has_its_type_in_arrow(type_: str, value: Any, arrow_type: Any) -> None:
    table = rows(("a", type_), values=[(value,), (None,)]).to_arrow()
    assert table.schema.field("a").type == arrow_type
    assert table.column("a").to_pylist() == [value, None]


def test_nested_values_and_equal_names_reach_arrow() -> None:
    struct = Row(["a", "a"], [1, DAY])
    found = rows(
        ("same", STRUCT), ("same", MAP), values=[(struct, {"x": [1, None]}), (None, None)]
    ).to_arrow()
    assert found.schema.names == ["same", "same"]
    assert found.column(0).combine_chunks().field(1).to_pylist()[0] == DAY
    assert found.column(1).to_pylist() == [[("x", [1, None])], None]


def test_rows_become_a_data_frame_of_pandas() -> None:
    frame = rows(("n", "long"), ("name", "string"), values=[(1, "a"), (2, None)]).to_pandas()
    assert list(frame.columns) == ["n", "name"]
    assert frame["n"].tolist() == [1, 2]


def test_no_rows_have_columns_in_arrow() -> None:
    table = rows(("n", "long"), values=[]).to_arrow()
    assert (table.num_rows, table.schema.names) == (0, ["n"])


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_what_is_not_installed_is_named_with_its_remedy(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InvalidInput, match=f"{missing} is not installed.*pip install {missing}"):
        rows(("n", "long"), values=[(1,)]).to_pandas()


def test_answers_become_rows_with_the_values_of_their_types() -> None:
    first = RowsAnswer(
        queries=1,
        query=1,
        statement="select",
        columns=[Column(name="at", type="date"), Column(name="s", type=STRUCT)],
        rows=[["2026-01-02", [1, "2026-01-02"]]],
        next_offset=1,
        total=3,
        truncated="too many",
    )
    second = RowsAnswer(
        queries=1,
        query=1,
        statement="select",
        columns=first.columns,
        rows=[[None, None], [None, [None, None]]],
        next_offset=None,
        total=3,
        truncated="too many",
    )
    found = rows_of([first, second])
    assert found == [(DAY, (1, DAY)), (None, None), (None, (None, None))]
    assert found[0].s.columns == ("a", "a")
    assert (found.total, found.truncated, found.statement) == (3, "too many", "select")


def test_the_table_of_a_notebook_escapes_values_and_tells_what_is_missing() -> None:
    found = rows(("<b>", "string"), values=[("<script>",)] * 150)
    found.truncated = "only the first 150 rows are kept"
    html = found._repr_html_()
    assert "<script>" not in html
    assert "&lt;b&gt;" in html
    assert html.count("<tr>") == 101
    assert "the first 100 of 150 rows; only the first 150 rows are kept" in html


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (b"\x00\xff", "0x00ff"),
        ("two\nlines\x1b[2J", r"two\nlines\x1b[2J"),
        ("日本 ö", "日本 ö"),
        ([1, None], "[1, NULL]"),
        ({"a": [1]}, "{a: [1]}"),
        (Row(["a", "b"], [1, "x"]), "{a: 1, b: x}"),
        (Decimal("1.10"), "1.10"),
        (DAY, "2026-01-02"),
    ],
)
def test_a_value_is_one_line_that_no_terminal_obeys(value: Any, text: str) -> None:
    assert cell_text(value) == text
