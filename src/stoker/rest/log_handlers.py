"""Requests about what attempts write to their two streams."""

from collections.abc import AsyncIterator
from typing import Annotated

from litestar import get
from litestar.params import PathParameter, QueryParameter
from litestar.response import Stream

from stoker.api.logs import LogAnswer
from stoker.core.errors import InvalidInput
from stoker.core.ids import AttemptId
from stoker.gateways.attempt_logs import LogStream
from stoker.rest.parameters import JobIdText, Services, parse_job_id
from stoker.rest.services import RestServices

AttemptText = Annotated[str, PathParameter(description="names an attempt, as the details do")]
StreamName = Annotated[str, QueryParameter(name="stream", description="stdout or stderr")]
Offset = Annotated[int, QueryParameter(ge=0, le=2**53, description="bytes to leave out")]


@get(
    "/jobs/{jobid:str}/attempts/{attempt:str}/log",
    summary="What an attempt wrote from an offset on, while it runs and afterwards",
)
async def attempt_log(
    jobid: JobIdText,
    attempt: AttemptText,
    services: Services,
    stream_name: StreamName = "stdout",
    offset: Offset = 0,
) -> LogAnswer:
    job_id, stream = parse_job_id(jobid), parse_stream(stream_name)
    dispatcher = await services.dispatcher()
    piece = await dispatcher.read_attempt_log(job_id, AttemptId(attempt), stream, offset)
    return LogAnswer(data=piece.data, next_offset=offset + len(piece.data), complete=piece.complete)


@get("/jobs/{jobid:str}/attempts/{attempt:str}/stdout", summary="What an attempt printed so far")
async def attempt_stdout(jobid: JobIdText, attempt: AttemptText, services: Services) -> Stream:
    return await _whole(services, jobid, attempt, LogStream.STDOUT)


@get("/jobs/{jobid:str}/attempts/{attempt:str}/stderr", summary="Its errors and its logging")
async def attempt_stderr(jobid: JobIdText, attempt: AttemptText, services: Services) -> Stream:
    return await _whole(services, jobid, attempt, LogStream.STDERR)


def parse_stream(text: str) -> LogStream:
    try:
        return LogStream(text.lower())
    except ValueError:
        raise InvalidInput(f"stream must be stdout or stderr, found {text!r}") from None


async def _whole(services: RestServices, jobid: str, attempt: str, stream: LogStream) -> Stream:
    """The first piece is read before the answer begins, so that an unknown attempt is a 404."""
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    first = await dispatcher.read_attempt_log(job_id, AttemptId(attempt), stream, 0)

    async def pieces() -> AsyncIterator[bytes]:
        piece, offset = first, 0
        while piece.data:
            yield piece.data
            offset += len(piece.data)
            piece = await dispatcher.read_attempt_log(job_id, AttemptId(attempt), stream, offset)

    return Stream(pieces(), media_type="text/plain; charset=utf-8")


LOG_HANDLERS = (attempt_log, attempt_stdout, attempt_stderr)
