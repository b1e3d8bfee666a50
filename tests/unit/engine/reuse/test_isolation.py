"""How far the session of a task is isolated from the sessions of other jobs."""

import pytest

from stoker.core.graph import (
    Artifact,
    ArtifactKind,
    FormatRead,
    FormatWrite,
    JobGraph,
    Program,
    PythonFunction,
    Sink,
    Source,
    Sql,
    SqlScript,
    Transform,
    Vertex,
)
from stoker.core.ids import AttemptId, JobId
from stoker.core.regions import regions_of
from stoker.engine.protocol import RunTask
from stoker.engine.reuse.isolation import Isolation, changes_session, is_code_free_sql, isolation_of

CODE = PythonFunction(name="code", payload=b"", parameters=("spark",))
FILES = Source(name="rows", read=FormatRead(format="parquet", path="/in"))
STREAM = Source(name="rows", read=FormatRead(format="parquet", path="/in"), streaming=True)
BY_CODE = Source(name="rows", read=CODE)
OUT = Sink(name="out", input="rows", write=FormatWrite(format="Parquet", path="/out"))
OUT_OF_TOTALS = Sink(name="out", input="totals", write=FormatWrite(format="noop"))
FILE = Artifact(name="a.py", kind=ArtifactKind.PYTHON, sha256="0" * 64, size=1)


def task(
    *vertices: Vertex, artifacts: tuple[Artifact, ...] = (), python_path: tuple[str, ...] = ()
) -> RunTask:
    graph = JobGraph(job_id=JobId("0" * 32), name="job", vertices=vertices, artifacts=artifacts)
    return RunTask(
        graph=graph,
        region=regions_of(graph)[-1],
        attempt=AttemptId("1"),
        directory="",
        materialized_root="",
        checkpoint_root="",
        artifacts={},
        python_path=python_path,
    )


def script(*statements: str) -> SqlScript:
    return SqlScript(name="script", statements=statements)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (task(FILES, OUT), Isolation.SHARED),
        (
            task(
                FILES,
                Transform(name="totals", inputs=("rows",), compute=Sql(query="SELECT * FROM rows")),
                OUT_OF_TOTALS,
            ),
            Isolation.SHARED,
        ),
        (task(script("CREATE TABLE t AS SELECT 1", "INSERT INTO t VALUES (2)")), Isolation.SHARED),
        (task(BY_CODE, OUT), Isolation.UNDECIDED),
        (
            task(
                FILES,
                Transform(name="totals", inputs=("rows",), compute=CODE),
                OUT_OF_TOTALS,
            ),
            Isolation.UNDECIDED,
        ),
        # Tasks that bring code or files of their own, or that may do so.
        (task(STREAM, OUT), Isolation.DEDICATED),
        (task(FILES, OUT, artifacts=(FILE,)), Isolation.DEDICATED),
        (task(BY_CODE, OUT, artifacts=(FILE,)), Isolation.DEDICATED),
        (task(BY_CODE, OUT, python_path=("/env",)), Isolation.DEDICATED),
        (task(FILES, Sink(name="out", input="rows", write=CODE)), Isolation.DEDICATED),
        (
            task(FILES, Sink(name="out", input="rows", write=FormatWrite(format="mine"))),
            Isolation.DEDICATED,
        ),
        (task(Source(name="rows", read=FormatRead(format="mine")), OUT), Isolation.DEDICATED),
        (task(script("SELECT 1", "ADD JAR '/mine.jar'")), Isolation.DEDICATED),
        (
            task(
                BY_CODE,
                Transform(
                    name="totals",
                    inputs=("rows",),
                    compute=Sql(query="SELECT TRANSFORM(id) USING 'cat' FROM rows"),
                ),
                OUT_OF_TOTALS,
            ),
            Isolation.DEDICATED,
        ),
    ],
)
def test_the_code_and_files_of_a_task_decide_its_isolation(
    given: RunTask, expected: Isolation
) -> None:
    assert isolation_of(given) is expected


def test_a_program_is_dedicated() -> None:
    program = Program(name="main", script="main.py")
    assert isolation_of(task(program)) is Isolation.DEDICATED


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "  with a as (select 1) select * from a",
        "(SELECT 1) UNION (SELECT 2)",
        "INSERT OVERWRITE t SELECT * FROM s",
        "create or replace temporary view v as select 1",
        "INSERT INTO t VALUES (2), (3)",
        "SELECT CAST(sum(x) AS DECIMAL(10, 2)), count(*) FROM t WHERE x IN (1, 2)",
    ],
)
def test_sql_that_only_computes_is_code_free(text: str) -> None:
    assert is_code_free_sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ADD JAR /a.jar",
        "SELECT made_by_somebody(x) FROM t",
        "SELECT `made_by_somebody`(x) FROM t",
        "SELECT default.count(x) FROM t",
        "SELECT '\\'', made_by_somebody(x) FROM t",
        "add file 'x'",
        "-- a comment first\nSELECT 1",
        "CREATE FUNCTION f AS 'a.B' USING JAR '/a.jar'",
        "CREATE TEMPORARY FUNCTION f AS 'a.B'",
        "SET spark.sql.artifact.isolation.enabled = true",
        "SELECT TRANSFORM(a) USING 'script' FROM t",
        "SELECT reflect('java.lang.System', 'exit', 1)",
        "SELECT * FROM (SELECT java_method('a', 'b'))",
        "CREATE TABLE t USING mine",
        "LOAD DATA INPATH 'x' INTO TABLE t",
    ],
)
def test_sql_that_may_load_or_call_code_is_not_code_free(text: str) -> None:
    assert not is_code_free_sql(text)


def of_rows(query: str) -> Transform:
    return Transform(name="totals", inputs=("rows",), compute=Sql(query=query))


@pytest.mark.parametrize(
    ("vertex", "changes"),
    [
        (FILES, False),
        (BY_CODE, False),
        (Transform(name="totals", inputs=("rows",), compute=CODE), False),
        (OUT, False),
        (OUT_OF_TOTALS, False),
        (Source(name="rows", read=FormatRead(format=None, table="t")), True),
        (Source(name="rows", read=Sql(query="SELECT id FROM range(10)")), False),
        (Source(name="rows", read=Sql(query="SELECT * FROM t")), True),
        (Source(name="rows", read=Sql(query="USE other")), True),
        (of_rows("SELECT * FROM Rows"), False),
        (of_rows("SELECT * FROM rows JOIN t"), True),
        (of_rows("CREATE TEMPORARY VIEW t AS SELECT * FROM rows"), True),
        (Sink(name="out", input="rows", write=FormatWrite(format="parquet", table="t")), True),
        (Sink(name="out", input="rows", write=CODE), True),
        (script("SELECT 1"), True),
        (Program(name="program", script="main.py"), True),
    ],
)
def test_sql_and_tables_may_change_a_session_and_files_do_not(
    vertex: Vertex, changes: bool
) -> None:
    assert changes_session(vertex) is changes
