"""Relative paths in SQL text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.spark_paths import describe_directory
from stoker.engine.failures import CannotRun
from stoker.engine.region.relative_paths import RelativePaths
from stoker.engine.region.sql_paths import resolve_sql
from stoker.pipeline.sql import tokens


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM parquet.`in/x`", "SELECT * FROM parquet.`{here}/in/x`"),
        ("SELECT * FROM a JOIN csv . `x`", "SELECT * FROM a JOIN csv . `{here}/x`"),
        ("SELECT * FROM a, JSON.`x`", "SELECT * FROM a, JSON.`{here}/x`"),
        (
            "SELECT * FROM (SELECT * FROM text.`README.md`)",
            "SELECT * FROM (SELECT * FROM text.`{here}/README.md`)",
        ),
        ("DESCRIBE TABLE parquet.`x`", "DESCRIBE TABLE parquet.`{here}/x`"),
        (
            "CREATE TABLE t (a INT) USING csv LOCATION 'out' -- 'x'",
            "CREATE TABLE t (a INT) USING csv LOCATION '{here}/out' -- 'x'",
        ),
        ("ALTER TABLE t SET LOCATION r'o\\ut'", "ALTER TABLE t SET LOCATION '{here}/o\\\\ut'"),
        (
            "CREATE TEMPORARY VIEW v USING csv OPTIONS (path 'in', header 'true')",
            "CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{here}/in', header 'true')",
        ),
        (
            "CREATE TABLE t USING parquet OPTIONS ('sep' = 'x', \"path\" = \"in\")",
            "CREATE TABLE t USING parquet OPTIONS ('sep' = 'x', \"path\" = \"{here}/in\")",
        ),
        (
            "INSERT OVERWRITE LOCAL DIRECTORY 'out' USING json SELECT 1",
            "INSERT OVERWRITE LOCAL DIRECTORY '{here}/out' USING json SELECT 1",
        ),
        (
            "INSERT OVERWRITE DIRECTORY USING json OPTIONS (path 'out') SELECT 1",
            "INSERT OVERWRITE DIRECTORY USING json OPTIONS (path '{here}/out') SELECT 1",
        ),
        (
            "LOAD DATA LOCAL INPATH 'in' INTO TABLE t",
            "LOAD DATA LOCAL INPATH '{here}/in' INTO TABLE t",
        ),
    ],
)
def test_a_relative_path_becomes_absolute(tmp_path: Path, query: str, expected: str) -> None:
    paths = RelativePaths(describe_directory(tmp_path))
    assert resolve_sql(query, paths) == expected.replace("{here}", str(tmp_path))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT csv.`name` FROM people csv WHERE csv.`name` = 'x'",
        "SELECT 'LOCATION' AS location, 'path' FROM t",
        "SELECT * FROM parquet.`/data/x` JOIN csv.`s3a://b/x`",
        "SELECT * FROM db.`x`",
        "CREATE TABLE t USING jdbc OPTIONS (path 'x', url 'jdbc:y')",
        "CREATE TABLE t USING csv OPTIONS (sep 'path', path '/x') LOCATION 'file:/x'",
        "-- FROM csv.`x`\nSELECT 1",
        "SELECT 'never closed FROM csv.`x`",
    ],
)
def test_everything_else_stays_as_it_is(query: str) -> None:
    assert resolve_sql(query, RelativePaths(None)) == query


def test_a_path_of_a_caller_elsewhere_is_refused() -> None:
    with pytest.raises(CannotRun, match="the path out is relative"):
        resolve_sql("CREATE TABLE t USING csv LOCATION 'out'", RelativePaths(None))


def test_quotes_in_the_name_of_the_directory_are_escaped(tmp_path: Path) -> None:
    directory = tmp_path / 'it\'s "a" `b` \\c'
    directory.mkdir()
    paths = RelativePaths(describe_directory(directory))
    assert resolve_sql("TABLE csv.`x`", paths) == f'TABLE csv.`{tmp_path}/it\'s "a" ``b`` \\c/x`'
    assert resolve_sql("SET LOCATION 'x'", paths) == (
        f"SET LOCATION '{tmp_path}/it\\'s \"a\" `b` \\\\c/x'"
    )


@given(st.text(alphabet="FROMcsvpathLOCATION()`'\"\\,.= /\n-*"))
def test_only_strings_and_names_change(query: str) -> None:
    """Whatever the text is: a statement that Spark refuses is refused with its own words."""
    found = resolve_sql(query, RelativePaths(describe_directory(Path("/"))))
    try:
        before = list(tokens(query))
    except ValueError:
        assert found == query
        return
    after = list(tokens(found))
    assert [token.kind for token in after] == [token.kind for token in before]
