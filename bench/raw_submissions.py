"""Submissions from a separate process, as fast as a master accepts them or at a steady rate.

The requests are built beforehand and sent over open connections, because the work of a client that
builds them is not measured here.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from bench.load_generator import linked_process
from bench.raw_connection import RawConnection, host_and_port
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
class SubmissionResult:
    per_second: float
    processor_seconds: float
    """Processor time that the submitting process used."""


@contextmanager
def prepared_submissions(url: str, jobs: int) -> Iterator[Callable[[], SubmissionResult]]:
    """A function that submits this many jobs; everything that it needs is loaded beforehand.

    Each connection submits its next job as soon as the previous one is accepted.
    """
    with linked_process(_submit, url, jobs) as link:

        def submit() -> SubmissionResult:
            link.send(None)
            result: SubmissionResult = link.recv()
            return result

        yield submit


def _submit(url: str, jobs: int, link: Connection) -> None:
    requests = _requests(url, jobs)
    connections = [RawConnection(url) for _ in range(CONNECTIONS)]
    sizes: list[int] = []
    threads = [
        threading.Thread(target=_send_all, args=(connection, requests[index::CONNECTIONS], sizes))
        for index, connection in enumerate(connections)
    ]
    link.send(None)
    link.recv()
    begin, processor = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed, used = time.perf_counter() - begin, time.process_time() - processor
    assert len(sizes) == jobs, "some jobs were not accepted"
    link.send(SubmissionResult(jobs / elapsed, used))


def _send_all(connection: RawConnection, requests: list[bytes], sizes: list[int]) -> None:
    for request in requests:
        sizes.append(connection.request_size(request, _ACCEPTED))


@dataclass(frozen=True)
class OfferedJobs:
    """A load of submissions at a rate that does not wait for responses."""

    url: str
    per_second: float
    jobs: int
    status: bytes = _ACCEPTED

    def requests(self, index: int, connections: int) -> Iterator[bytes]:
        return iter(_requests(self.url, len(range(index, self.jobs, connections))))

    def check(self, body: bytes) -> None:
        assert json.loads(body)["repeated"] is False, body


def _requests(url: str, jobs: int) -> list[bytes]:
    host, port = host_and_port(url)
    ids = Ids()
    return [_request(small_job(ids), f"{host}:{port}") for _ in range(jobs)]


def _request(graph: JobGraph, host: str) -> bytes:
    body = SubmissionBody(graph, {}, new_boundary())
    headers = "".join(f"{name}: {value}\r\n" for name, value in body.headers.items())
    return f"POST /jobs HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n".encode() + b"".join(
        body.pieces()
    )
