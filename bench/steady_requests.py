"""Requests at a steady rate from a process of its own, over connections that stay open.

It only counts the bytes of an answer: one that parsed them would measure itself. How long an
answer took counts from the moment at which its request was due, so that one that is late makes the
next ones late as well.
"""

import multiprocessing
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

CONNECTIONS = 16
_PIECE = 1024 * 1024


@dataclass(frozen=True)
class Answered:
    milliseconds: tuple[float, ...]
    bytes_each: int

    def percentile(self, share: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    def __str__(self) -> str:
        return (
            f"p50 {self.percentile(0.5):.1f} ms, p99 {self.percentile(0.99):.1f} ms "
            f"(n={len(self.milliseconds)}, {self.bytes_each / 1000:.0f} kB each)"
        )


@dataclass(frozen=True)
class Question:
    url: str
    path: str
    a_second: float
    encoding: str = "identity"

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    @property
    def request(self) -> bytes:
        host, port = self.place
        return (
            f"GET {self.path} HTTP/1.1\r\nhost: {host}:{port}\r\n"
            f"accept-encoding: {self.encoding}\r\n\r\n"
        ).encode()


@contextmanager
def asking(question: Question) -> Iterator[list[Answered]]:
    """Asks for as long as the context is open; afterwards the list holds what was seen."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_ask, args=(question, there))
    process.start()
    found: list[Answered] = []
    try:
        here.recv()
        yield found
        here.send(None)
        found.append(here.recv())
    finally:
        here.close()
        process.join(timeout=30)
        process.kill()


def answers_within(question: Question, seconds: float) -> Answered:
    with asking(question) as found:
        time.sleep(seconds)
    return found[0]


def _ask(question: Question, link: Connection) -> None:
    over = threading.Event()
    took: list[float] = []
    sizes: list[int] = []
    opened = [_Line(question) for _ in range(CONNECTIONS)]
    opened[0].ask()
    begin = time.perf_counter() + 0.1
    threads = [
        threading.Thread(target=_keep_asking, args=(line, place, begin, over, took, sizes))
        for place, line in enumerate(opened)
    ]
    for thread in threads:
        thread.start()
    link.send(None)
    try:
        link.recv()
    except EOFError:
        return
    finally:
        over.set()
    for thread in threads:
        thread.join()
    link.send(Answered(tuple(took), max(sizes)))


def _keep_asking(
    line: "_Line",
    place: int,
    begin: float,
    over: threading.Event,
    took: list[float],
    sizes: list[int],
) -> None:
    number = place
    while True:
        due = begin + number / line.question.a_second
        if over.wait(max(0.0, due - time.perf_counter())):
            return
        sizes.append(line.ask())
        took.append((time.perf_counter() - due) * 1000)
        number += CONNECTIONS


class _Line:
    def __init__(self, question: Question) -> None:
        self.question = question
        self._socket = socket.create_connection(question.place)
        self._buffer = bytearray(_PIECE)

    def ask(self) -> int:
        """How long the body was."""
        self._socket.sendall(self.question.request)
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self._socket.recv(4096)
            assert piece, "the connection was closed"
            head += piece
        head, _, body = head.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        left = length - len(body)
        while left:
            received = self._socket.recv_into(self._buffer, min(left, _PIECE))
            assert received, "the connection was closed"
            left -= received
        return length
