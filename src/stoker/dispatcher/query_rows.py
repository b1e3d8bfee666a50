"""Reads the rows that the queries of a SQL script returned."""

import msgspec

from stoker.core.errors import NotFound
from stoker.core.ids import AttemptId
from stoker.core.results import JobDetails
from stoker.core.rows import QueryResult
from stoker.core.values import decode_value
from stoker.gateways.dispatcher import RowsPiece
from stoker.ha.stores.query_results import QueryResultStore
from stoker.storage.contract import Storage


async def read_rows(
    storage: Storage, details: JobDetails, query: int | None, offset: int
) -> RowsPiece:
    """The rows from the offset on that are in one piece; NotFound if there is no such query."""
    for attempt in _attempts(details):
        store = QueryResultStore.of_attempt(storage, details.job_id, attempt)
        numbers = await store.numbers()
        if not numbers:
            continue
        wanted = numbers[-1] if query is None else query
        if wanted not in numbers:
            raise NotFound(
                f"job {details.job_id} has no query {wanted}: its queries have the numbers 1 to "
                f"{numbers[-1]}"
            )
        result = await store.read(wanted)
        rows = await _rows_from(store, wanted, result, offset)
        return RowsPiece(queries=len(numbers), query=wanted, result=result, rows=rows)
    raise NotFound(
        f"job {details.job_id} has no rows: only a SELECT in a SQL script keeps the rows that it "
        f"returns, once it has run (the job is {details.status})"
    )


def _attempts(details: JobDetails) -> list[AttemptId]:
    return [region.current.attempt for region in details.regions if region.current.attempt]


async def _rows_from(
    store: QueryResultStore, number: int, result: QueryResult, offset: int
) -> bytes:
    begin = 0
    for piece, count in enumerate(result.pieces):
        if offset < begin + count:
            content = await store.rows(number, piece)
            if offset == begin:
                return content
            rows = decode_value(content, list[msgspec.Raw], f"rows of query {number}")
            return msgspec.json.encode(rows[offset - begin :])
        begin += count
    return b"[]"
