"""Requests for the rows that the queries of SQL scripts returned."""

from typing import Annotated, Any

from stoker.api.jobs import RowsAnswer
from stoker.core.values import decode_value
from stoker.gateways.dispatcher import RowsPiece
from stoker.rest.http.routing import QueryParameter, get
from stoker.rest.requests.parameters import JobIdText, parse_job_id
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

QueryNumber = Annotated[
    int | None,
    QueryParameter(ge=1, le=2**31, description="number of the query; by default the last one"),
]
Offset = Annotated[int, QueryParameter(ge=0, le=2**53, description="rows to skip")]
Limit = Annotated[int | None, QueryParameter(ge=0, le=2**53, description="maximum number of rows")]


@get(
    "/jobs/{jobid}/rows",
    needs=Permission.QUERY,
    summary="Rows that a SELECT of a SQL script returned, from an offset on, piece by piece",
)
async def rows(
    jobid: JobIdText,
    services: RestServices,
    query: QueryNumber = None,
    offset: Offset = 0,
    limit: Limit = None,
) -> RowsAnswer:
    dispatcher = await services.dispatcher()
    return rows_answer(
        await dispatcher.read_rows(parse_job_id(jobid), query, offset), offset, limit
    )


def rows_answer(piece: RowsPiece, offset: int, limit: int | None) -> RowsAnswer:
    found = decode_value(piece.rows, list[list[Any]], "rows")[:limit]
    end, result = offset + len(found), piece.result
    return RowsAnswer(
        queries=piece.queries,
        query=piece.query,
        statement=result.statement,
        columns=list(result.columns),
        rows=found,
        next_offset=end if end < result.total else None,
        total=result.total,
        truncated=result.truncated,
    )


ROW_HANDLERS = (rows,)
