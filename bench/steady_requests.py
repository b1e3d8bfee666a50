"""Requests at a steady rate from a process of its own, over connections that stay open.

How long an answer took counts from the moment at which its request was due, so that one that is
late makes the next ones late as well. Every answer is read to its end and has the right status; a
sample of them is parsed, after the others have been measured.
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

from bench.raw_line import RawLine, place_of

CONNECTIONS = 16
_SAMPLE_EVERY = 25
"""Of the requests of one connection."""


@dataclass(frozen=True)
class Answered:
    milliseconds: tuple[float, ...]
    bytes_each: int
    """Of half of them at most."""
    seconds: float
    """From the first that was due to the last answer."""
    processor_seconds: float
    """What it took to ask."""

    def percentile(self, share: float) -> float:
        return percentile(self.milliseconds, share)

    def __str__(self) -> str:
        return (
            f"p50 {self.percentile(0.5):.1f} ms, p99 {self.percentile(0.99):.1f} ms "
            f"(n={len(self.milliseconds)}, {self.bytes_each / 1000:.0f} kB each)"
        )


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Steady(Protocol):
    """What is asked, and how often."""

    @property
    def url(self) -> str: ...
    @property
    def a_second(self) -> float: ...
    @property
    def status(self) -> bytes: ...

    def requests(self, place: int, of: int) -> Iterator[bytes]:
        """Those of one connection; called beforehand."""
        ...

    def check(self, body: bytes) -> None:
        """That an answer says what it should."""
        ...


@dataclass(frozen=True)
class Question:
    """For a list of jobs, until somebody says that it is enough."""

    url: str
    path: str
    a_second: float
    encoding: str = "identity"
    least: int = 0
    """So many jobs must be in it."""
    status: bytes = b"200"

    def requests(self, place: int, of: int) -> Iterator[bytes]:
        host, port = place_of(self.url)
        return itertools.repeat(
            (
                f"GET {self.path} HTTP/1.1\r\nhost: {host}:{port}\r\n"
                f"accept-encoding: {self.encoding}\r\n\r\n"
            ).encode()
        )

    def check(self, body: bytes) -> None:
        jobs = json.loads(gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body)["jobs"]
        assert len({job["jid"] for job in jobs}) == len(jobs) >= self.least, len(jobs)


@contextmanager
def asking(steady: Steady) -> Iterator[list[Answered]]:
    """Asks for as long as the context is open; afterwards the list holds what was seen."""
    with _process(steady) as link:
        found: list[Answered] = []
        link.send(None)
        yield found
        link.send(None)
        found.append(link.recv())


def answers_within(steady: Steady, seconds: float) -> Answered:
    with asking(steady) as found:
        time.sleep(seconds)
    return found[0]


@contextmanager
def ready_to_ask(steady: Steady) -> Iterator[Callable[[], Answered]]:
    """For requests that come to an end: begins when it is called, and has nothing to load then."""
    with _process(steady) as link:

        def ask() -> Answered:
            link.send(None)
            answered: Answered = link.recv()
            return answered

        yield ask


@contextmanager
def _process(steady: Steady) -> Iterator[Connection]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_ask, args=(steady, there))
    process.start()
    # Else nobody would be told that the process is gone.
    there.close()
    try:
        here.recv()
        yield here
    finally:
        here.close()
        process.join(timeout=30)
        process.kill()


def _ask(steady: Steady, link: Connection) -> None:
    asker = _Asker(steady)
    asker.prepare()
    link.send(None)
    try:
        link.recv()
        asker.start()
        while asker.is_busy:
            if link.poll(0.05):
                link.recv()
                asker.over.set()
                break
        link.send(asker.answered())
    finally:
        asker.over.set()


@dataclass
class _Asker:
    steady: Steady
    over: threading.Event = field(default_factory=threading.Event)
    took: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    samples: list[bytes] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    begin: float = 0.0
    _processor: float = 0.0
    _threads: list[threading.Thread] = field(default_factory=list)
    _failures: list[BaseException] = field(default_factory=list)

    def prepare(self) -> None:
        lines = [RawLine(self.steady.url) for _ in range(CONNECTIONS)]
        requests = [self.steady.requests(place, CONNECTIONS) for place in range(CONNECTIONS)]
        self._threads = [
            threading.Thread(target=self._keep_asking, args=(place, line, mine), daemon=True)
            for place, (line, mine) in enumerate(zip(lines, requests, strict=True))
        ]

    def start(self) -> None:
        self._processor = time.process_time()
        self.begin = time.perf_counter() + 0.1
        for thread in self._threads:
            thread.start()

    @property
    def is_busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def answered(self) -> Answered:
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        used = time.process_time() - self._processor
        for body in self.samples:
            self.steady.check(body)
        size = median_low(self.sizes)
        return Answered(tuple(self.took), size, max(self.ends) - self.begin, used)

    def _keep_asking(self, place: int, line: RawLine, requests: Iterator[bytes]) -> None:
        try:
            for number, request in enumerate(requests):
                due = self.begin + (place + number * CONNECTIONS) / self.steady.a_second
                if self.over.wait(max(0.0, due - time.perf_counter())):
                    return
                if (place + number) % _SAMPLE_EVERY:
                    self.sizes.append(line.ask(request, self.steady.status))
                else:
                    self.samples.append(line.read(request, self.steady.status))
                    self.sizes.append(len(self.samples[-1]))
                self.ends.append(time.perf_counter())
                self.took.append((time.perf_counter() - due) * 1000)
        except BaseException as failure:
            self._failures.append(failure)
