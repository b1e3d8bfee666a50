"""Requests about what attempts write to their two streams."""

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

AttemptText = Annotated[str, PathParameter(description="names an attempt, as the details do")]
StreamName = Annotated[str, QueryParameter(name="stream", description="stdout or stderr")]
Offset = Annotated[int, QueryParameter(ge=0, le=2**53, description="bytes to leave out")]
Limit = Annotated[int | None, QueryParameter(ge=0, le=2**53, description="bytes at most")]
Follow = Annotated[bool, QueryParameter(description="go on as it is written, until it has ended")]

FOLLOW_SECONDS = 0.5
_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A part of what an attempt wrote."""

    job_id: JobId
    attempt: AttemptId
    stream: LogStream
    offset: int
    limit: int | None
    follow: bool = False

    async def read(self, dispatcher: DispatcherGateway, at: int) -> LogPiece:
        """From this byte on, and not beyond the limit."""
        piece = await dispatcher.read_attempt_log(self.job_id, self.attempt, self.stream, at)
        left = None if self.limit is None else self.offset + self.limit - at
        if left is None or len(piece.data) <= left:
            return piece
        return msgspec.structs.replace(piece, data=piece.data[:left], complete=False)

    def is_enough(self, at: int) -> bool:
        return self.limit is not None and at >= self.offset + self.limit


@get(
    "/jobs/{jobid}/attempts/{attempt}/log",
    summary="What an attempt wrote from an offset on, while it runs and afterwards",
)
async def attempt_log(
    jobid: JobIdText,
    attempt: AttemptText,
    services: RestServices,
    stream_name: StreamName = "stdout",
    offset: Offset = 0,
    limit: Limit = None,
) -> LogAnswer:
    wanted = Wanted(
        job_id=parse_job_id(jobid),
        attempt=AttemptId(attempt),
        stream=parse_stream(stream_name),
        offset=offset,
        limit=limit,
    )
    piece = await wanted.read(await services.dispatcher(), offset)
    return LogAnswer(data=piece.data, next_offset=offset + len(piece.data), complete=piece.complete)


def _whole(stream: LogStream, summary: str) -> Route:
    """What answers with all of a stream."""

    @get(f"/jobs/{{jobid}}/attempts/{{attempt}}/{stream}", summary=summary, media_type=_TYPE)
    async def attempt_stream(
        jobid: JobIdText,
        attempt: AttemptText,
        services: RestServices,
        offset: Offset = 0,
        limit: Limit = None,
        follow: Follow = False,
    ) -> Stream:
        wanted = Wanted(
            job_id=parse_job_id(jobid),
            attempt=AttemptId(attempt),
            stream=stream,
            offset=offset,
            limit=limit,
            follow=follow,
        )
        return await _streamed(services, wanted)

    return attempt_stream


def parse_stream(text: str) -> LogStream:
    try:
        return LogStream(text.lower())
    except ValueError:
        raise InvalidInput(f"stream must be stdout or stderr, found {text!r}") from None


async def _streamed(services: RestServices, wanted: Wanted) -> Stream:
    """The first piece is read before the answer begins, so that an unknown attempt is a 404."""
    first = await wanted.read(await services.dispatcher(), wanted.offset)
    return Stream(_pieces(services, wanted, first), media_type=_TYPE)


async def _pieces(
    services: RestServices, wanted: Wanted, piece: LogPiece
) -> AsyncGenerator[bytes, None]:
    at = wanted.offset
    while True:
        if piece.data:
            yield piece.data
            at += len(piece.data)
        elif not wanted.follow:
            return
        if piece.complete or wanted.is_enough(at):
            return
        if not piece.data:
            await asyncio.sleep(FOLLOW_SECONDS)
        try:
            piece = await wanted.read(await services.dispatcher(), at)
        except StokerError:
            # The answer has begun: who wants the rest asks again, from where it ended.
            return


LOG_HANDLERS = (
    attempt_log,
    _whole(LogStream.STDOUT, "What an attempt printed so far, or as it prints it"),
    _whole(LogStream.STDERR, "Its errors and its logging, in the same way"),
)
