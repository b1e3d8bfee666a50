"""Which tables and views a query names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.reuse.sql import names_no_relation, relations_in


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT 1", []),
        ("select id from RANGE(10)", []),
        ("SELECT key, count(*) AS n FROM rows GROUP BY key, other ORDER BY n, key", ["rows"]),
        ("SELECT * FROM a, b WHERE a.x = b.x", ["a", "b"]),
        ("SELECT * FROM a LEFT JOIN b ON a.x = b.x, c", ["a", "b", "c"]),
        ("SELECT * FROM a JOIN LATERAL (SELECT * FROM b) ON TRUE", ["a", "b"]),
        ("SELECT * FROM a JOIN b USING (x), c", ["a", "b", "c"]),
        ("SELECT * FROM (a JOIN b ON a.x = b.x, c)", ["a", "b", "c"]),
        ("SELECT * FROM (SELECT * FROM a) AS t, b", ["a", "b"]),
        ("FROM a SELECT x, y", ["a"]),
        ("SELECT x FROM a UNION ALL SELECT x FROM b", ["a", "b"]),
        ("(SELECT x FROM a) UNION (FROM b)", None),
        ("SELECT x FROM a UNION (FROM b)", ["a", "b"]),
        ("SELECT x FROM a WHERE x IN (SELECT y FROM b) AND EXISTS (FROM c)", ["a", "b", "c"]),
        ("SELECT (SELECT max(x) FROM b) FROM a", ["a", "b"]),
        ("SELECT * EXCEPT (x, y) FROM a", ["a"]),
        ("SELECT `from`, a.from, 'FROM b', \"FROM b\" FROM `a`", ["a"]),
        ("SELECT a.x, a.join FROM a", ["a"]),
        ("SELECT x -- FROM b\n FROM a /* , b */", ["a"]),
        ("SELECT 1.FROM a", ["a"]),
        ("SELECT x -- y\rFROM a", ["a"]),
        ("SELECT x || ' ' || y FROM a LIMIT 3", ["a"]),
        ("SELECT x FROM a WHERE day = :day", ["a"]),
        ("WITH t AS (SELECT * FROM a), u AS (SELECT * FROM t) SELECT * FROM u, t", ["a"]),
        ("WITH t AS (SELECT * FROM u), u AS (SELECT 1) SELECT * FROM t", ["u"]),
        ("SELECT sum(x) OVER (PARTITION BY y ORDER BY z, v) FROM a", ["a"]),
        ("SELECT window(t, '1 hour').start FROM a", ["a"]),
    ],
)
def test_the_tables_and_views_of_a_query_are_found(query: str, names: list[str] | None) -> None:
    assert relations_in(query) == (None if names is None else frozenset(names))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SELECT * FROM",
        "SELECT (1",
        "SELECT 1)",
        "SELECT 1; SELECT 2",
        "SELECT * FROM default.a",
        "SELECT * FROM parquet.`/in`",
        "SELECT * FROM `a``b`",
        "SELECT * FROM 'a'",
        "SELECT * FROM IDENTIFIER('a')",
        "SELECT * FROM VALUES (1)",
        "SELECT * FROM STREAM a",
        "SELECT * FROM explode_all(3)",
        "SELECT * FROM range(3), other(3)",
        "SELECT * FROM a |> JOIN b",
        "SELECT * FROM a UNION TABLE b",
        "SELECT * FROM a UNION VALUES (1)",
        "SELECT '\\'', x FROM a",
        "SELECT * FROM ${a}",
        "SELECT /* /* */ */ x FROM a",
        "SELECT * FROM a where, b",
        "SELECT * FROM a WHERE (x), b",
        "SELECT * FROM a limit (x), b",
        "SELECT * FROM a group, b",
        "SELECT * FROM a order (x), b",
        "SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t), t",
        "WITH RECURSIVE t AS (SELECT 1) SELECT * FROM t",
        "WITH t AS (SELECT 1) INSERT INTO a SELECT * FROM t",
        "FROM a INSERT INTO b SELECT *",
        "SELECT my_function(x) FROM a",
        "SELECT col(x) FROM a",
        "SELECT somewhere.count(x) FROM a",
        "SELECT `my_function`(x) FROM a",
        "INSERT INTO a SELECT 1",
        "CREATE TEMPORARY VIEW a AS SELECT 1",
        "USE other",
        "TABLE a",
        "VALUES (1)",
    ],
)
def test_the_relations_of_an_unusual_query_are_unknown(query: str) -> None:
    assert relations_in(query) is None


@pytest.mark.parametrize(
    ("expression", "none"),
    [
        ("x > 3 AND y IN (1, 2)", True),
        ("count(*) AS n", True),
        ("cast(x AS DECIMAL(3, 2))", False),
        ("x IN (SELECT y FROM a)", False),
        ("x IN (FROM a)", False),
        ("x IN (TABLE a)", False),
        ("my_function(x)", False),
        ("CASE WHEN x THEN (y) ELSE (z) END", True),
    ],
)
def test_expressions_that_may_contain_queries_are_recognized(expression: str, none: bool) -> None:
    assert names_no_relation(expression) is none


WORDS = """
    SELECT FROM WHERE a b t , . ( ) AS JOIN ON x 1 'FROM b' `b` UNION ALL WITH GROUP ORDER BY
    LIMIT count in range LATERAL -- /* */ window sort : [
"""


@given(st.lists(st.sampled_from(WORDS.split()), max_size=25))
def test_no_name_is_overlooked_whatever_surrounds_it(words: list[str]) -> None:
    found = relations_in("\n".join(["SELECT x FROM hidden ,", *words]))
    assert found is None or "hidden" in found
    found = relations_in("\n".join([*words, "JOIN hidden"]))
    # `a.join` is a column.
    may_hide = "/*" in words or words[-1:] == ["."]
    assert found is None or may_hide or "hidden" in found
