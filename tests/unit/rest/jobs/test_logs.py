"""The output of attempts: in ranges, and followed while it is written."""

import asyncio
import base64
from datetime import timedelta

import pytest

from stoker.core.errors import NotFound, Unavailable
from stoker.core.ids import AttemptId, JobId
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.rest.jobs import log_handlers
from stoker.rest.options import RestOptions
from stoker.testing.rest import DispatcherInMemory, Master
from stoker.testing.sample_jobs import RUNNING

PATH = f"/jobs/{RUNNING}/attempts/one"


class GrowingLog(DispatcherInMemory):
    """A dispatcher whose attempt writes its next part after each read that finds nothing new."""

    def __init__(self, *parts: bytes, ends: bool = True) -> None:
        super().__init__()
        self.written, self.to_come = parts[0], list(parts[1:])
        self.ends = ends
        self.fails_at: int | None = None

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        if attempt != "one":
            raise NotFound(f"job {job_id} has no attempt {attempt}")
        if self.fails_at is not None and offset >= self.fails_at:
            raise Unavailable("the leader has gone")
        data = self.written[offset : offset + 4]
        done = self.ends and not self.to_come and offset + len(data) >= len(self.written)
        if not data and self.to_come:
            self.written += self.to_come.pop(0)
        return LogPiece(data=data, complete=done)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, "0123456789"),
        ({"offset": 3}, "3456789"),
        ({"offset": 3, "limit": 5}, "34567"),
        ({"limit": 0}, ""),
        ({"limit": 4}, "0123"),
        ({"offset": 99}, ""),
        ({"offset": 8, "limit": 99, "follow": True}, "89"),
    ],
)
async def test_a_range_of_a_log_is_read(query: dict[str, int], text: str) -> None:
    async with Master(dispatcher=GrowingLog(b"0123456789")).in_process() as http:
        for stream in ("stdout", "stderr"):
            answer = await http.get(f"{PATH}/{stream}", params=query)
            assert (answer.status_code, answer.text) == (200, text)
        piece = (await http.get(f"{PATH}/log", params={"offset": 2, "limit": 3})).json()
    assert base64.b64decode(piece["data"]) == b"234"
    assert (piece["next-offset"], piece["complete"]) == (5, False)


async def test_a_log_is_followed_until_its_attempt_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_handlers, "POLL_SECONDS", 0)
    async with Master(dispatcher=GrowingLog(b"begun\n", b"more\n", b"end\n")).in_process() as http:
        so_far = await http.get(f"{PATH}/stdout")
        followed = await http.get(f"{PATH}/stdout", params={"follow": "true"})
    assert so_far.text == "begun\n"
    assert followed.text == "begun\nmore\nend\n"


async def test_a_log_that_is_lost_while_it_is_sent_ends_there() -> None:
    writing = GrowingLog(b"0123456789")
    writing.fails_at = 4
    async with Master(dispatcher=writing).in_process() as http:
        answer = await http.get(f"{PATH}/stdout", params={"follow": "true"})
    assert (answer.status_code, answer.text) == (200, "0123")


async def test_a_client_that_follows_a_log_does_not_delay_the_end_of_the_server() -> None:
    options = RestOptions(bind_port="0", shutdown_timeout=timedelta(seconds=60))
    master = Master(dispatcher=GrowingLog(b"begun\n", ends=False), options=options)
    async with master.serving() as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(f"GET {PATH}/stdout?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 30
    writer.close()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/jobs/{RUNNING}/attempts/two/stdout", 404),
        (f"{PATH}/stdout?offset=-1", 400),
        (f"{PATH}/stdout?limit=x", 400),
        (f"{PATH}/stdout?follow=perhaps", 400),
        (f"{PATH}/log?stream=other", 400),
        ("/jobs/xyz/attempts/one/stdout", 400),
    ],
)
async def test_an_invalid_log_request_is_refused_before_the_answer_begins(
    path: str, status: int
) -> None:
    async with Master(dispatcher=GrowingLog(b"")).in_process() as http:
        answer = await http.get(path)
    assert answer.status_code == status
    assert answer.json()["errors"]
