"""Jobs handed in from a process of its own: as fast as a master takes them, or at a steady rate.

The requests are made beforehand and sent over connections that stay open: what a client does to
make them is not measured here.
"""

import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from bench.raw_line import RawLine, place_of
from stoker import Pipeline
from stoker.client.submission import SubmissionBody, new_boundary
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids

CONNECTIONS = 16
NAME = "small"
_ACCEPTED = b"202"


def small_job(ids: Ids) -> JobGraph:
    pipeline = Pipeline(NAME)
    pipeline.source("rows", format="json", path="/in")
    pipeline.sink("rows", name="out", format="noop", mode="overwrite")
    return pipeline.build(job_id=ids.job())


@dataclass(frozen=True)
class Accepted:
    a_second: float
    processor_seconds: float
    """What it took to hand them in."""


@contextmanager
def ready_to_hand_in(url: str, jobs: int) -> Iterator[Callable[[], Accepted]]:
    """The next one on each connection as soon as the last one is accepted; begins when it is
    called, and has nothing to load then."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_submit, args=(url, jobs, there))
    process.start()
    there.close()

    def hand_in() -> Accepted:
        here.send(None)
        accepted: Accepted = here.recv()
        return accepted

    try:
        here.recv()
        yield hand_in
    finally:
        here.close()
        process.join(timeout=30)
        process.kill()


def _submit(url: str, jobs: int, link: Connection) -> None:
    requests = _requests(url, jobs)
    lines = [RawLine(url) for _ in range(CONNECTIONS)]
    sizes: list[int] = []
    threads = [
        threading.Thread(target=_send_all, args=(line, requests[place::CONNECTIONS], sizes))
        for place, line in enumerate(lines)
    ]
    link.send(None)
    link.recv()
    begin, processor = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, used = time.perf_counter() - begin, time.process_time() - processor
    assert len(sizes) == jobs, "some were not accepted"
    link.send(Accepted(jobs / took, used))


def _send_all(line: RawLine, requests: list[bytes], sizes: list[int]) -> None:
    for request in requests:
        sizes.append(line.ask(request, _ACCEPTED))


@dataclass(frozen=True)
class Offer:
    """So many jobs, at a rate that does not wait for answers."""

    url: str
    a_second: float
    jobs: int
    status: bytes = _ACCEPTED

    def requests(self, place: int, of: int) -> Iterator[bytes]:
        return iter(_requests(self.url, len(range(place, self.jobs, of))))

    def check(self, body: bytes) -> None:
        assert json.loads(body)["repeated"] is False, body


def _requests(url: str, jobs: int) -> list[bytes]:
    host, port = place_of(url)
    ids = Ids()
    return [_request(small_job(ids), f"{host}:{port}") for _ in range(jobs)]


def _request(graph: JobGraph, host: str) -> bytes:
    body = SubmissionBody(graph, {}, new_boundary())
    headers = "".join(f"{name}: {value}\r\n" for name, value in body.headers.items())
    return f"POST /jobs HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n".encode() + b"".join(
        body.pieces()
    )
