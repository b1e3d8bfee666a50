"""The rows that SELECTs of a SQL script return, on both engines' common code and a real Spark."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from builders import build_graph
from integration.engine.bench import OPTIONS, Bench
from stoker.core.graph import SqlScript
from stoker.core.rows import QueryResult, decoder
from stoker.core.states import ExecutionState
from stoker.ha.stores.query_results import QueryResultStore
from stoker.storage.open import open_storage

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def results_of(
    bench: Bench, *statements: str, **configuration: str
) -> list[tuple[QueryResult, list[tuple[Any, ...]]]]:
    """Run the statements; each query with its rows, as Python values."""
    graph = build_graph(
        SqlScript(name="script", statements=statements), configuration=configuration
    )
    outcome = await bench.run(graph)
    assert outcome.failure is None, outcome.failure
    assert outcome.state is ExecutionState.FINISHED
    store = QueryResultStore(open_storage((bench.root / "rows" / outcome.attempt).as_uri()))
    found = []
    for number in await store.numbers():
        result = await store.read(number)
        decoders = [decoder(column.type) for column in result.columns]
        rows = [
            tuple(decode(value) for decode, value in zip(decoders, values, strict=True))
            for piece in range(len(result.pieces))
            for values in msgspec.json.decode(await store.rows(number, piece))
        ]
        assert len(rows) == result.total
        found.append((result, rows))
    return found


async def rows_of(bench: Bench, query: str, **configuration: str) -> list[tuple[Any, ...]]:
    [(_, rows)] = await results_of(bench, query, **configuration)
    return rows


async def test_values_of_every_type_survive(bench: Bench) -> None:
    query = """
    SELECT true, 1Y, 2S, 3, 4L, 0.5F, 0.25D, 12.30BD, 'Grüße, 世界 🌍', X'00FF',
           DATE'2026-01-02', TIMESTAMP'2026-01-02 03:04:05.000006',
           TIMESTAMP_NTZ'2026-01-02 03:04:05', INTERVAL '1 02:03:04' DAY TO SECOND,
           INTERVAL '1-2' YEAR TO MONTH, CAST('NaN' AS DOUBLE), CAST('Infinity' AS FLOAT),
           CAST(NULL AS DECIMAL(5,1)), NULL, ARRAY(1, NULL), MAP('a', DATE'2026-01-02'),
           NAMED_STRUCT('x', 1, 'y', ARRAY(NAMED_STRUCT('z', 1.5BD)))
    """
    zone = {"spark.sql.session.timeZone": "Europe/Vienna"}
    [row] = await rows_of(bench, query, **zone)
    assert row[:9] == (True, 1, 2, 3, 4, 0.5, 0.25, Decimal("12.30"), "Grüße, 世界 🌍")
    assert row[9:13] == (
        b"\x00\xff",
        date(2026, 1, 2),
        datetime(2026, 1, 2, 2, 4, 5, 6, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 5),
    )
    assert row[13] == timedelta(days=1, hours=2, minutes=3, seconds=4)
    assert row[14] == "INTERVAL '1-2' YEAR TO MONTH"
    assert str(row[15]) == "nan"
    assert row[16:19] == (float("inf"), None, None)
    assert row[19:] == (
        [1, None],
        {"a": date(2026, 1, 2)},
        (1, [(Decimal("1.5"),)]),
    )


async def test_names_may_occur_twice_and_rows_may_be_missing(bench: Bench) -> None:
    query = "SELECT id, id * 2 AS id, INTERVAL '1' YEAR AS id FROM range({})"
    [(some, rows), (none, no_rows)] = await results_of(bench, query.format(2), query.format(0))
    assert [column.name for column in some.columns] == ["id", "id", "id"]
    assert [row[:2] for row in rows] == [(0, 0), (1, 2)]
    assert [column.name for column in none.columns] == ["id", "id", "id"]
    assert no_rows == []


async def test_every_query_of_a_script_has_a_result_and_other_statements_have_none(
    bench: Bench,
) -> None:
    found = await results_of(
        bench,
        "CREATE TEMPORARY VIEW v AS SELECT 1 AS a",
        "SELECT a FROM v",
        "SHOW COLUMNS IN v",
        "WITH w AS (SELECT a + 1 AS b FROM v) SELECT b FROM w",
    )
    assert [rows for _, rows in found] == [[(1,)], [("a",)], [(2,)]]
    assert found[0][0].statement == "SELECT a FROM v"


async def test_rows_keep_their_order(bench: Bench) -> None:
    rows = await rows_of(bench, "SELECT id FROM range(5000) ORDER BY id DESC")
    assert [id_ for (id_,) in rows] == list(range(4999, -1, -1))


async def test_more_rows_than_are_kept_are_cut_with_a_reason(bench: Bench) -> None:
    [(result, rows)] = await results_of(bench, "SELECT id FROM range(1000000) ORDER BY id")
    assert len(rows) == OPTIONS.result_rows
    assert result.truncated == "only the first 10,000 rows are kept (sql.result.max-rows)"


async def test_wide_rows_are_cut_at_the_size_of_all_queries_together(bench: Bench) -> None:
    wide = f"SELECT id, repeat('x', {1024**2}) AS wide FROM range(5)"
    found = await results_of(bench, wide, wide, "SELECT 1")
    assert [len(rows) for _, rows in found] == [5, 2, 1]
    assert found[0][0].truncated == ""
    assert "sql.result.max-size" in found[1][0].truncated
    assert found[0][0].pieces == (1, 1, 1, 1, 1), "each piece is small enough to be answered"


async def test_a_row_that_is_too_large_for_an_answer_is_not_kept(bench: Bench) -> None:
    huge = f"SELECT id, repeat('x', {5 * 1024**2} * id) AS wide FROM range(2) ORDER BY id"
    [(result, rows)] = await results_of(bench, huge)
    assert rows == [(0, "")]
    assert result.truncated.startswith("the next row has 5,24")


async def test_a_query_that_fails_while_it_runs_fails_the_job(bench: Bench) -> None:
    graph = build_graph(
        SqlScript(name="script", statements=("SELECT raise_error('no such day') FROM range(3)",))
    )
    outcome = await bench.run(graph)
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert "no such day" in outcome.failure.message


async def test_a_thousand_columns_are_kept(bench: Bench) -> None:
    columns = ", ".join(f"{number} AS c{number}" for number in range(1000))
    [row] = await rows_of(bench, f"SELECT {columns}")
    assert row == tuple(range(1000))
