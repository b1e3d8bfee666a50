"""The rows of queries, as the runner writes them and the dispatcher reads them."""

import json

import pytest

from builders import build_details
from stoker.core.errors import CorruptContent, NotFound
from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.results import AttemptDetails, JobDetails, RegionDetails
from stoker.core.rows import Column, QueryResult
from stoker.core.states import ExecutionState, JobStatus
from stoker.dispatcher.query_rows import read_rows
from stoker.dispatcher.sweep import KnownJobs, is_wanted
from stoker.ha.keys import query_rows, rows_of_attempt
from stoker.ha.stores.query_results import LARGEST_FILE, QueryResultStore
from stoker.storage.memory import MemoryStorage

JOB = JobId("1" * 32)
ATTEMPT = AttemptId("2" * 32)
COLUMNS = (Column(name="n", type="long"),)


def details(attempt: AttemptId = ATTEMPT) -> JobDetails:
    current = AttemptDetails(attempt=attempt, number=0, state=ExecutionState.FINISHED)
    region = RegionDetails(
        id=RegionId("script"), vertices=("script",), streaming=False, current=current
    )
    return build_details(JobStatus.FINISHED, job_id=JOB, regions=(region,))


async def keep(storage: MemoryStorage, number: int, *pieces: list[int]) -> QueryResult:
    store = QueryResultStore.of_attempt(storage, JOB, ATTEMPT)
    for at, piece in enumerate(pieces):
        await store.write_rows(number, at, [json.dumps([value]).encode() for value in piece])
    result = QueryResult(
        statement=f"select {number}", columns=COLUMNS, pieces=tuple(map(len, pieces))
    )
    await store.record(number, result)
    return result


async def test_rows_are_read_piece_by_piece_from_any_offset() -> None:
    storage = MemoryStorage()
    await keep(storage, 1, [1, 2, 3], [4], [5, 6])
    found: dict[int, list[list[int]]] = {}
    for offset in range(8):
        piece = await read_rows(storage, details(), None, offset)
        assert piece.result.total == 6
        found[offset] = json.loads(piece.rows)
    assert found == {
        0: [[1], [2], [3]],
        1: [[2], [3]],
        2: [[3]],
        3: [[4]],
        4: [[5], [6]],
        5: [[6]],
        6: [],
        7: [],
    }


async def test_the_last_query_is_the_result_unless_another_is_asked_for() -> None:
    storage = MemoryStorage()
    await keep(storage, 1, [1])
    await keep(storage, 2, [2])
    last = await read_rows(storage, details(), None, 0)
    first = await read_rows(storage, details(), 1, 0)
    assert (last.query, last.queries, last.rows) == (2, 2, b"[[2]]")
    assert (first.query, first.queries, first.rows) == (1, 2, b"[[1]]")
    with pytest.raises(NotFound, match="has no query 3: its queries have the numbers 1 to 2"):
        await read_rows(storage, details(), 3, 0)


async def test_a_query_without_rows_has_columns() -> None:
    storage = MemoryStorage()
    await keep(storage, 1)
    piece = await read_rows(storage, details(), None, 0)
    assert (piece.result.columns, piece.rows) == (COLUMNS, b"[]")


async def test_rows_without_a_record_are_no_result() -> None:
    """The runner died before it had recorded the query."""
    storage = MemoryStorage()
    await QueryResultStore.of_attempt(storage, JOB, ATTEMPT).write_rows(1, 0, [b"[1]"])
    with pytest.raises(NotFound, match="has no rows: only a SELECT in a SQL script"):
        await read_rows(storage, details(), None, 0)


async def test_a_file_that_no_runner_wrote_does_not_fill_the_memory_of_a_master() -> None:
    """Code of the job can write below its attempt."""
    storage = MemoryStorage()
    await keep(storage, 1, [1])
    path = f"{rows_of_attempt(JOB, ATTEMPT)}/{query_rows(1, 0)}"
    await storage.write(path, b"[" + b" " * LARGEST_FILE + b"]")
    with pytest.raises(CorruptContent, match="which no result has"):
        await read_rows(storage, details(), None, 0)


@pytest.mark.parametrize("content", [b"", b"[[1]", b"{}", b"\xff"])
async def test_damaged_rows_are_named(content: bytes) -> None:
    storage = MemoryStorage()
    await keep(storage, 1, [1, 2])
    path = f"{rows_of_attempt(JOB, ATTEMPT)}/{query_rows(1, 0)}"
    await storage.write(path, content)
    with pytest.raises(CorruptContent, match="rows of query 1"):
        await read_rows(storage, details(), None, 1)


async def test_rows_of_a_former_attempt_are_no_result() -> None:
    storage = MemoryStorage()
    await keep(storage, 1, [1])
    with pytest.raises(NotFound):
        await read_rows(storage, details(AttemptId("3" * 32)), None, 0)


def test_rows_are_kept_as_long_as_the_result_of_their_job() -> None:
    path = f"{rows_of_attempt(JOB, ATTEMPT)}/{query_rows(1, 0)}"
    assert is_wanted(path, KnownJobs(jobs={}, results={JOB: None}))
    assert is_wanted(path, KnownJobs(jobs={JOB: None}, results={}))
    assert not is_wanted(path, KnownJobs(jobs={}, results={JobId("9" * 32): None}))
