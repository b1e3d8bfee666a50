"""What a statement would leave in a catalog."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.region.catalog_objects import (
    CatalogObject,
    ObjectKind,
    created_by,
    object_named,
)

TABLE, VIEW = ObjectKind.TABLE, ObjectKind.VIEW
FUNCTION, DATABASE = ObjectKind.FUNCTION, ObjectKind.DATABASE


@pytest.mark.parametrize(
    ("statement", "kind", "name"),
    [
        ("create table ts using parquet as select 1 as a", TABLE, ["ts"]),
        ("CREATE TABLE IF NOT EXISTS db.ts (a INT)", TABLE, ["db", "ts"]),
        ("CREATE OR REPLACE TABLE `a.b`.`c``d` AS SELECT 1", TABLE, ["a.b", "c`d"]),
        ("REPLACE TABLE cat.db.ts AS SELECT 1", TABLE, ["cat", "db", "ts"]),
        ("CREATE EXTERNAL TABLE ts (a INT) LOCATION '/x'", TABLE, ["ts"]),
        ("CREATE TABLE ts LIKE other", TABLE, ["ts"]),
        ("CREATE TABLE if AS SELECT 1", TABLE, ["if"]),
        ("-- first\n  /* then /* nested */ this */ ;; CREATE\nTABLE ts AS SELECT 1", TABLE, ["ts"]),
        ("CREATE TABLE IDENTIFIER(:name) AS SELECT 1", TABLE, []),
        ("CREATE VIEW v AS SELECT 1", VIEW, ["v"]),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", VIEW, ["v"]),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", VIEW, ["v"]),
        ("CREATE FUNCTION f(x INT) RETURNS INT RETURN x", FUNCTION, ["f"]),
        ("CREATE DATABASE d", DATABASE, ["d"]),
        ("create schema if not exists d", DATABASE, ["d"]),
        ("CREATE NAMESPACE cat.d", DATABASE, ["cat", "d"]),
        ("EXECUTE IMMEDIATE 'CREATE TABLE ts AS SELECT ''a'''", TABLE, ["ts"]),
        ('EXECUTE IMMEDIATE "CREATE TABLE ts AS SELECT 1"', TABLE, ["ts"]),
        ("BEGIN SELECT 1; CREATE TABLE ts AS SELECT 1; END", TABLE, ["ts"]),
        ("lbl: BEGIN IF true THEN CREATE TABLE ts (a INT); END IF; END", TABLE, ["ts"]),
    ],
)
def test_what_outlives_the_session_is_found(
    statement: str, kind: ObjectKind, name: list[str]
) -> None:
    assert created_by(statement) == [CatalogObject(kind, tuple(name))]


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "  -- nothing\n",
        "SELECT 'create table ts'",
        "SELECT 1 AS create, 2 AS table",
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
        "CREATE GLOBAL TEMPORARY VIEW v AS SELECT 1",
        "CREATE TEMPORARY VIEW v USING csv OPTIONS (path '/x')",
        "CREATE TEMPORARY FUNCTION f AS 'x.Y'",
        "CREATE TEMPORARY TABLE t USING csv OPTIONS (path '/x')",
        "EXPLAIN CREATE TABLE ts AS SELECT 1",
        "SHOW CREATE TABLE ts",
        "INSERT INTO ts VALUES ('; CREATE TABLE x')",
        "INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT 1",
        "DROP TABLE ts",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "BEGIN SELECT 'CREATE TABLE x'; -- CREATE TABLE y\n END",
        "CREATE",
        "/* CREATE TABLE x",
    ],
)
def test_what_ends_with_the_session_is_no_concern(statement: str) -> None:
    assert created_by(statement) == []


def test_the_catalog_is_the_first_part_of_a_longer_name() -> None:
    assert object_named(TABLE, "ts").catalog is None
    assert object_named(TABLE, "`my cat`.db.ts").catalog == "my cat"
    assert str(object_named(TABLE, "db.ts")) == "the table db.ts"


@given(st.text())
def test_any_text_is_read_to_its_end(text: str) -> None:
    created_by(text)
    object_named(TABLE, text)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_every_quoted_name_is_read_back(parts: list[str]) -> None:
    name = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    assert object_named(TABLE, name).name == tuple(parts)
    assert created_by(f"CREATE TABLE {name} AS SELECT 1")[0].name == tuple(parts)
