"""Requests for the output of attempts, stdout and stderr."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated

import msgspec

from stoker.api.jobs import LogAnswer
from stoker.core.errors import InvalidInput, StokerError
from stoker.core.ids import AttemptId, JobId
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.rest.http.asgi import Stream
from stoker.rest.http.routing import PathParameter, QueryParameter, Route, get
from stoker.rest.requests.parameters import JobIdText, parse_job_id
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

AttemptText = Annotated[
    str, PathParameter(description="id of an attempt, as in the details of its job")
]
StreamName = Annotated[str, QueryParameter(name="stream", description="stdout or stderr")]
Offset = Annotated[int, QueryParameter(ge=0, le=2**53, description="bytes to skip")]
Limit = Annotated[int | None, QueryParameter(ge=0, le=2**53, description="maximum number of bytes")]
Follow = Annotated[
    bool, QueryParameter(description="keep sending what the attempt writes until it ends")
]

POLL_SECONDS = 0.5
_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True, kw_only=True)
class LogRange:
    """A range of one output stream of an attempt."""

    job_id: JobId
    attempt: AttemptId
    stream: LogStream
    offset: int
    limit: int | None
    follow: bool = False

    async def read(self, dispatcher: DispatcherGateway, at: int) -> LogPiece:
        """Read from byte `at` on, up to the limit."""
        piece = await dispatcher.read_attempt_log(self.job_id, self.attempt, self.stream, at)
        remaining = None if self.limit is None else self.offset + self.limit - at
        if remaining is None or len(piece.data) <= remaining:
            return piece
        return msgspec.structs.replace(piece, data=piece.data[:remaining], complete=False)

    def is_complete_at(self, at: int) -> bool:
        return self.limit is not None and at >= self.offset + self.limit


@get(
    "/jobs/{jobid}/attempts/{attempt}/log",
    needs=Permission.QUERY,
    summary="Output of an attempt from an offset on, while it runs and afterwards",
)
async def attempt_log(
    jobid: JobIdText,
    attempt: AttemptText,
    services: RestServices,
    stream_name: StreamName = "stdout",
    offset: Offset = 0,
    limit: Limit = None,
) -> LogAnswer:
    log_range = LogRange(
        job_id=parse_job_id(jobid),
        attempt=AttemptId(attempt),
        stream=parse_stream(stream_name),
        offset=offset,
        limit=limit,
    )
    piece = await log_range.read(await services.dispatcher(), offset)
    return LogAnswer(data=piece.data, next_offset=offset + len(piece.data), complete=piece.complete)


def _stream_route(stream: LogStream, summary: str) -> Route:
    @get(
        f"/jobs/{{jobid}}/attempts/{{attempt}}/{stream}",
        needs=Permission.QUERY,
        summary=summary,
        media_type=_TYPE,
    )
    async def attempt_stream(
        jobid: JobIdText,
        attempt: AttemptText,
        services: RestServices,
        offset: Offset = 0,
        limit: Limit = None,
        follow: Follow = False,
    ) -> Stream:
        log_range = LogRange(
            job_id=parse_job_id(jobid),
            attempt=AttemptId(attempt),
            stream=stream,
            offset=offset,
            limit=limit,
            follow=follow,
        )
        return await _send_stream(services, log_range)

    return attempt_stream


def parse_stream(text: str) -> LogStream:
    try:
        return LogStream(text.lower())
    except ValueError:
        raise InvalidInput(f"stream must be stdout or stderr, found {text!r}") from None


async def _send_stream(services: RestServices, log_range: LogRange) -> Stream:
    """The first piece is read before the answer begins, so that an unknown attempt is a 404."""
    first = await log_range.read(await services.dispatcher(), log_range.offset)
    return Stream(_pieces(services, log_range, first), media_type=_TYPE)


async def _pieces(
    services: RestServices, log_range: LogRange, piece: LogPiece
) -> AsyncGenerator[bytes, None]:
    at = log_range.offset
    while True:
        if piece.data:
            yield piece.data
            at += len(piece.data)
        elif not log_range.follow:
            return
        if piece.complete or log_range.is_complete_at(at):
            return
        if not piece.data:
            await asyncio.sleep(POLL_SECONDS)
        try:
            piece = await log_range.read(await services.dispatcher(), at)
        except StokerError:
            # The answer has begun, so it can only end here; the client asks again from this offset.
            return


LOG_HANDLERS = (
    attempt_log,
    _stream_route(LogStream.STDOUT, "Standard output of an attempt; with follow, until it ends"),
    _stream_route(
        LogStream.STDERR, "Standard error of an attempt, with its log; with follow, until it ends"
    ),
)
