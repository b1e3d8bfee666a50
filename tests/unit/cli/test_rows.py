"""Rows on the screen and in files."""

import csv
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from stoker.cli.rows import check_output, print_rows, unique_names, write_rows
from stoker.client.rows import Rows
from stoker.core.errors import InvalidInput
from stoker.core.rows import Column, Row

LIST = {"type": "array", "elementType": "long"}
MAP = {"type": "map", "keyType": "date", "valueType": "string"}
COLUMNS = (("id", "long"), ("id", "decimal(4,2)"), ("on", "date"), ("of", LIST), ("by", MAP))
VALUES = [
    (1, Decimal("1.10"), date(2026, 1, 2), [1, None], {date(2026, 1, 2): "ä"}),
    (2, None, None, None, None),
]


def rows(columns: Any = COLUMNS, values: Any = VALUES, **facts: Any) -> Rows:
    names = [name for name, _ in columns]
    return Rows(
        [Row(names, value) for value in values],
        [Column(name=name, type=type_) for name, type_ in columns],
        **facts,
    )


def test_a_json_file_has_an_object_for_each_row(tmp_path: Path) -> None:
    write_rows(rows(), tmp_path / "rows.json")
    assert json.loads((tmp_path / "rows.json").read_text(encoding="utf-8")) == [
        {
            "id": 1,
            "id_2": "1.10",
            "on": "2026-01-02",
            "of": [1, None],
            "by": {"2026-01-02": "ä"},
        },
        {"id": 2, "id_2": None, "on": None, "of": None, "by": None},
    ]


def test_a_csv_file_has_a_line_for_each_row(tmp_path: Path) -> None:
    write_rows(rows(), tmp_path / "rows.CSV")
    with (tmp_path / "rows.CSV").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["id", "id", "on", "of", "by"],
            ["1", "1.10", "2026-01-02", "[1, null]", '{"2026-01-02": "ä"}'],
            ["2", "", "", "", ""],
        ]


def test_a_parquet_file_keeps_the_types(tmp_path: Path) -> None:
    write_rows(rows(), tmp_path / "rows.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert table.schema.names == ["id", "id_2", "on", "of", "by"]
    assert table.column("id_2").to_pylist() == [Decimal("1.10"), None]
    assert table.column("on").to_pylist() == [date(2026, 1, 2), None]


def test_a_name_that_tells_no_form_is_refused_before_the_job_runs(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"let its name end with \.csv, \.json, \.parquet"):
        check_output(tmp_path / "rows.txt")
    with pytest.raises(InvalidInput, match="is no directory"):
        check_output(tmp_path / "missing" / "rows.csv")
    check_output(tmp_path / "rows.csv")


def test_the_table_is_bounded_and_says_what_is_left_out(capsys: Any) -> None:
    print_rows(
        rows([("n", "long")], [(n,) for n in range(60)], total=200, truncated="more were there")
    )
    out, err = capsys.readouterr()
    assert out.split() == ["n", *map(str, range(50))]
    assert err == "The first 50 of 200 rows; more were there; --output FILE writes all.\n"


@pytest.mark.parametrize(
    ("values", "text"), [([], "0 rows.\n"), ([(1,)], "1 row.\n"), ([(1,), (2,)], "2 rows.\n")]
)
def test_the_number_of_rows_is_said(values: Any, text: str, capsys: Any) -> None:
    print_rows(rows([("n", "long")], values))
    assert capsys.readouterr().err == text


def test_long_values_and_names_are_cut(capsys: Any) -> None:
    print_rows(rows([("n" * 300, "string")], [("x" * 300,)]))
    assert max(map(len, capsys.readouterr().out.splitlines())) == 80


def test_repeated_names_get_numbers_that_no_other_name_has() -> None:
    assert unique_names(["a", "a_2", "a", "a"]) == ["a", "a_2", "a_3", "a_4"]
