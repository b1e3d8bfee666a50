"""A load generator: a separate process sends requests at a steady rate over open connections.

The latency of a request counts from the moment at which the request was due, so that a late
response delays the requests after it and their latencies show it. Every response is read to its end
and must have the expected status. A sample of the responses is parsed after the measurement.
"""

import gzip
import itertools
import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from statistics import median_low
from typing import Protocol

from bench.raw_connection import RawConnection, host_and_port

CONNECTIONS = 16
_SAMPLE_EVERY = 25
"""One response in so many on each connection is kept and parsed."""


@dataclass(frozen=True)
class LoadResult:
    milliseconds: tuple[float, ...]
    """Latency of each request."""
    median_bytes: int
    seconds: float
    """Time from the first due request to the last response."""
    processor_seconds: float
    """Processor time that the load generator used."""

    def percentile(self, share: float) -> float:
        return percentile(self.milliseconds, share)

    def __str__(self) -> str:
        return (
            f"p50 {self.percentile(0.5):.1f} ms, p99 {self.percentile(0.99):.1f} ms "
            f"(n={len(self.milliseconds)}, {self.median_bytes / 1000:.0f} kB each)"
        )


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Load(Protocol):
    """Which requests are sent, at which rate, and what the responses must be."""

    @property
    def url(self) -> str: ...
    @property
    def per_second(self) -> float: ...
    @property
    def status(self) -> bytes: ...

    def requests(self, index: int, connections: int) -> Iterator[bytes]:
        """The requests of the connection with this index; called before the measurement."""
        ...

    def check(self, body: bytes) -> None:
        """Assert that the content of a response is right."""
        ...


@dataclass(frozen=True)
class ListRequests:
    """Endless requests for a list of jobs."""

    url: str
    path: str
    per_second: float
    encoding: str = "identity"
    min_jobs: int = 0
    """How many jobs the list must contain at least."""
    status: bytes = b"200"

    def requests(self, index: int, connections: int) -> Iterator[bytes]:
        host, port = host_and_port(self.url)
        return itertools.repeat(
            (
                f"GET {self.path} HTTP/1.1\r\nhost: {host}:{port}\r\n"
                f"accept-encoding: {self.encoding}\r\n\r\n"
            ).encode()
        )

    def check(self, body: bytes) -> None:
        jobs = json.loads(gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body)["jobs"]
        assert len({job["jid"] for job in jobs}) == len(jobs) >= self.min_jobs, len(jobs)


@contextmanager
def sustained_load(load: Load) -> Iterator[list[LoadResult]]:
    """Send requests while the context is open; afterwards the list contains the result."""
    with linked_process(_generate, load) as link:
        results: list[LoadResult] = []
        link.send(None)
        yield results
        link.send(None)
        results.append(link.recv())


def run_load(load: Load, seconds: float) -> LoadResult:
    with sustained_load(load) as results:
        time.sleep(seconds)
    return results[0]


@contextmanager
def prepared_load(load: Load) -> Iterator[Callable[[], LoadResult]]:
    """A function that sends a finite load; everything that it needs is loaded beforehand."""
    with linked_process(_generate, load) as link:

        def send() -> LoadResult:
            link.send(None)
            result: LoadResult = link.recv()
            return result

        yield send


@contextmanager
def linked_process(work: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """Run `work(*arguments, link)` in a process; yields the other end of its link.

    The process sends something when it is prepared, and is then ready to be used.
    """
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=work, args=(*arguments, there))
    process.start()
    # While this end is open here, the death of the process would go unnoticed.
    there.close()
    try:
        here.recv()
        yield here
    finally:
        here.close()
        process.join(timeout=30)
        process.kill()


def _generate(load: Load, link: Connection) -> None:
    generator = _LoadGenerator(load)
    generator.prepare()
    link.send(None)
    try:
        link.recv()
        generator.start()
        while generator.is_busy:
            if link.poll(0.05):
                link.recv()
                generator.stopping.set()
                break
        link.send(generator.result())
    finally:
        generator.stopping.set()


@dataclass
class _LoadGenerator:
    load: Load
    stopping: threading.Event = field(default_factory=threading.Event)
    latencies: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    samples: list[bytes] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    begin: float = 0.0
    _processor: float = 0.0
    _threads: list[threading.Thread] = field(default_factory=list)
    _failures: list[BaseException] = field(default_factory=list)

    def prepare(self) -> None:
        connections = [RawConnection(self.load.url) for _ in range(CONNECTIONS)]
        requests = [self.load.requests(index, CONNECTIONS) for index in range(CONNECTIONS)]
        self._threads = [
            threading.Thread(target=self._send_all, args=(index, connection, mine), daemon=True)
            for index, (connection, mine) in enumerate(zip(connections, requests, strict=True))
        ]

    def start(self) -> None:
        self._processor = time.process_time()
        self.begin = time.perf_counter() + 0.1
        for thread in self._threads:
            thread.start()

    @property
    def is_busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def result(self) -> LoadResult:
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        used = time.process_time() - self._processor
        for body in self.samples:
            self.load.check(body)
        size = median_low(self.sizes)
        return LoadResult(tuple(self.latencies), size, max(self.ends) - self.begin, used)

    def _send_all(self, index: int, connection: RawConnection, requests: Iterator[bytes]) -> None:
        try:
            for number, request in enumerate(requests):
                due = self.begin + (index + number * CONNECTIONS) / self.load.per_second
                if self.stopping.wait(max(0.0, due - time.perf_counter())):
                    return
                if (index + number) % _SAMPLE_EVERY:
                    self.sizes.append(connection.request_size(request, self.load.status))
                else:
                    self.samples.append(connection.request_body(request, self.load.status))
                    self.sizes.append(len(self.samples[-1]))
                self.ends.append(time.perf_counter())
                self.latencies.append((time.perf_counter() - due) * 1000)
        except BaseException as failure:
            self._failures.append(failure)
