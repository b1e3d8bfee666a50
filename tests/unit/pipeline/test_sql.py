from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.graph import SqlScript
from stoker.pipeline.drafts import JobSettings
from stoker.pipeline.load import load_job
from stoker.pipeline.sql import (
    Unterminated,
    returns_rows,
    split_statements,
    tables_read,
    tokens,
)

Refusal = Callable[[Callable[[], object]], str]
WriteFile = Callable[[str, str], Path]


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' ; SELECT \";\"", ["SELECT ';'", 'SELECT ";"']),
        ("SELECT 'it''s;' ;", ["SELECT 'it''s;'"]),
        (r"SELECT 'a\';b'; SELECT 2", [r"SELECT 'a\';b'", "SELECT 2"]),
        (r"SELECT r'\'; SELECT 2", [r"SELECT r'\'", "SELECT 2"]),
        ("SELECT `a;b`; SELECT 2", ["SELECT `a;b`", "SELECT 2"]),
        ("SELECT 1 -- no; end\n; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT /* a; /* b; */ c; */ 1; SELECT 2", ["SELECT /* a; /* b; */ c; */ 1", "SELECT 2"]),
        ("-- only; a comment\n;;  ;", []),
        ("-- first\nSELECT 1 /* last */;", ["SELECT 1"]),
        ("SELECT 1 -- \\\n still; comment\n; SELECT 2", ["SELECT 1", "SELECT 2"]),
        (
            "BEGIN\n DECLARE x INT;\n IF x > 1 THEN SELECT 1; END IF;\n"
            " SELECT CASE WHEN x THEN 1 END;\nEND; SELECT 2",
            [
                "BEGIN\n DECLARE x INT;\n IF x > 1 THEN SELECT 1; END IF;\n"
                " SELECT CASE WHEN x THEN 1 END;\nEND",
                "SELECT 2",
            ],
        ),
        ("SELECT CASE WHEN a THEN 1 END; SELECT 2", ["SELECT CASE WHEN a THEN 1 END", "SELECT 2"]),
        ("", []),
    ],
)
def test_a_script_is_split_where_a_statement_ends(script: str, statements: list[str]) -> None:
    assert [statement.text for statement in split_statements(script)] == statements


def test_each_statement_knows_the_line_in_which_it_begins() -> None:
    script = "-- head\n\nSELECT 1;\n  /* two\n lines */ SELECT\n 2; SELECT 3"
    assert [each.line for each in split_statements(script)] == [3, 5, 6]


@pytest.mark.parametrize(
    ("script", "what", "line"),
    [("SELECT 'a", "string", 1), ("SELECT 1;\n/* a", "comment", 2), ("\n\n`a", "quoted name", 3)],
)
def test_an_unterminated_string_name_or_comment_is_reported_with_its_line(
    script: str, what: str, line: int
) -> None:
    with pytest.raises(Unterminated) as error:
        split_statements(script)
    assert (error.value.what, error.value.line) == (what, line)


pieces = st.sampled_from(
    [
        "SELECT 1",
        "';'",
        '"x;"',
        "`;`",
        "/* ; */",
        "-- ;\n",
        " ",
        "\n",
        "a",
        "r'\\'",
        "'\\''",
        "(",
        "1",
    ]
)
statement = st.lists(pieces, max_size=6).map(lambda parts: f"SELECT {' '.join(parts)} 1")


@given(
    st.lists(statement, min_size=1, max_size=5), st.sampled_from([";", ";\n", " ; -- x\n", ";;"])
)
def test_joining_and_splitting_gives_the_statements_back(
    statements: list[str], separator: str
) -> None:
    found = split_statements(separator.join(statements))
    assert [each.text for each in found] == statements


@given(st.text(alphabet="a1'\"`;-/*\\\n ().,rR"))
def test_tokens_joined_give_the_text_back(text: str) -> None:
    try:
        found = list(tokens(text))
    except Unterminated:
        return
    assert "".join(token.text for token in found) == text


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM raw", ["raw"]),
        ("select raw.id from raw join `other` on raw.id = other.id", ["raw", "other"]),
        ("SELECT a, b FROM x, y AS z, w WHERE q IN (1, 2)", ["x", "y", "w"]),
        ("SELECT * FROM (SELECT * FROM inner_one) t JOIN (a JOIN b)", ["inner_one", "a", "b"]),
        ("WITH c AS (SELECT * FROM raw) SELECT * FROM c", ["raw"]),
        ("SELECT 'FROM nope' -- FROM never\n/* FROM no */ FROM raw", ["raw"]),
        ("SELECT * FROM db.raw", []),
        ("SELECT * FROM range(10)", []),
        ("SELECT * FROM a UNION ALL SELECT x, y FROM b", ["a", "b"]),
        ("SELECT a IS DISTINCT FROM b FROM raw", ["raw"]),
        ("SELECT * FROM a LEFT SEMI JOIN b USING (id), c", ["a", "b", "c"]),
        ("SELECT (SELECT max(x) FROM m), y FROM raw ORDER BY p, q", ["m", "raw"]),
        ("FROM raw |> WHERE x", ["raw"]),
        ("SELECT * FROM raw LATERAL VIEW explode(xs) t AS x", ["raw"]),
        ("SELECT 'open FROM raw", []),
    ],
)
def test_a_query_tells_which_tables_it_reads(query: str, tables: list[str]) -> None:
    assert tables_read(query) == tables


def test_comments_at_the_head_of_a_script_set_name_parameters_and_configuration(
    write: WriteFile,
) -> None:
    path = write(
        "job.sql",
        "-- A remark: nothing\n-- name: top\n-- param: day=2026-11-01\n-- param: out\n"
        "-- conf: spark.sql.ansi.enabled=true\nSELECT '${day}';\nSELECT '${out}'; -- name: no\n",
    )
    graph = load_job(path, JobSettings(params={"out": "a'; DROP TABLE x; '"})).graph
    assert graph.name == "top"
    assert graph.configuration == {"spark.sql.ansi.enabled": "true"}
    assert graph.vertices == (
        SqlScript(
            name="script",
            statements=("SELECT '2026-11-01'", "SELECT 'a'; DROP TABLE x; ''"),
            file="job.sql",
            lines=(6, 7),
        ),
    )


def test_a_script_without_a_name_is_named_after_its_file(write: WriteFile) -> None:
    assert load_job(write("daily.sql", "SELECT 1")).graph.name == "daily"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "job.sql: the script has no statement (write at least one statement)"),
        ("-- nothing\n;\n", "job.sql: the script has no statement"),
        ("SELECT 1;\nSELECT 'a", "job.sql line 2: the string does not end (close it)"),
        ("-- nmae: x\nSELECT 1", "job.sql line 1: unknown comment '-- nmae:'"),
        ("\n-- params: x=1\nSELECT 1", "did you mean '-- param:'?"),
        ("-- conf: spark.x\nSELECT 1", "'-- conf: spark.x' has no value (write key=value)"),
        ("SELECT ${day}", "statement 1: '${day}' refers to no parameter"),
        ("-- conf: spark.master=local\nSELECT 1", "set it in the configuration of the cluster"),
        ("-- name:\nSELECT 1", "job: its name is empty"),
    ],
)
def test_a_bad_script_is_reported_with_its_line(
    script: str, message: str, write: WriteFile, refusal: Refusal
) -> None:
    path = write("job.sql", script)
    assert message in refusal(lambda: load_job(path))


@pytest.mark.parametrize(
    "statement",
    [
        "select 1",
        "SELECT * FROM t -- with a comment",
        "/* first */ (select 1) union (select 2)",
        "with a as (select 1) select * from a",
        "WITH updated AS (SELECT 1 AS `delete`) TABLE updated",
        "values (1), (2)",
        "from t select a",
        "from t |> where a > 1",
        "show tables",
        "describe t",
        "explain select 1",
    ],
)
def test_a_query_returns_rows(statement: str) -> None:
    assert returns_rows(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "create table t as select 1",
        "insert into t select 1",
        "with a as (select 1) insert into t select * from a",
        "from t insert into u select a",
        "create temp view v as select 1",
        "set spark.sql.ansi.enabled = true",
        "drop table t",
        "use default",
        "",
        "select 'never closed",
    ],
)
def test_a_statement_that_changes_something_returns_none(statement: str) -> None:
    assert not returns_rows(statement)
