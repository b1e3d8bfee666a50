"""Connections of the blocking client that stay open between calls."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import stoker
from stoker.client.blocking import BlockingClient
from stoker.client.options import ClientOptions
from stoker.core.errors import NotFound

ANSWER = b'{"jobs": []}'


class Master:
    """Answers requests for the job list. A test can set an action before each answer."""

    def __init__(self) -> None:
        self.connections: list[threading.Event] = []
        """In the order in which they were opened; each event is set when its connection ends."""
        self.calls: list[int] = []
        """For each call, the number of its connection."""
        self.before_answer: Callable[[BaseHTTPRequestHandler], bool] = lambda _: True
        """Called before each answer. If it returns False, the connection is closed instead."""
        master = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                self.number = len(master.connections)
                master.connections.append(threading.Event())

            def finish(self) -> None:
                super().finish()
                self.connection.close()
                master.connections[self.number].set()

            def do_GET(self) -> None:
                master.calls.append(self.number)
                if not master.before_answer(self):
                    self.close_connection = True
                    return
                self.send_response(404 if master.refuses else 200)
                self.send_header("content-length", str(len(ANSWER)))
                self.end_headers()
                self.wfile.write(ANSWER)
                if master.afterwards:
                    master.was_read.wait(10)
                    self.wfile.write(master.afterwards)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.refuses = False
        self.afterwards = b""
        self.was_read = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def running(master: Master) -> Iterator[None]:
    thread = threading.Thread(target=master.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        master.server.shutdown()
        thread.join()
        master.server.server_close()


@pytest.fixture
def master() -> Iterator[Master]:
    master = Master()
    with running(master):
        yield master


def forbid_sleep(seconds: float) -> None:
    raise AssertionError(f"waits {seconds} s")


@pytest.fixture
def client(master: Master) -> Iterator[BlockingClient]:
    """A client without retries: each call succeeds or fails at once."""
    with BlockingClient(master.url, ClientOptions(retries=0), sleep=forbid_sleep) as client:
        yield client


def test_successive_calls_use_one_connection(master: Master, client: BlockingClient):
    for _ in range(3):
        assert client.jobs() == []
    assert master.calls == [0, 0, 0]


def test_concurrent_calls_use_a_connection_each(master: Master, client: BlockingClient):
    together = threading.Barrier(4, timeout=10)
    master.before_answer = lambda _: together.wait() >= 0
    for _ in range(2):
        threads = [threading.Thread(target=client.jobs) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(master.calls[:4]) == sorted(master.calls[4:]) == [0, 1, 2, 3]


def test_a_connection_that_the_master_has_closed_is_not_used(
    master: Master, client: BlockingClient
):
    def hang_up_afterwards(handler: BaseHTTPRequestHandler) -> bool:
        handler.close_connection = True
        return True

    master.before_answer = hang_up_afterwards
    client.jobs()
    assert master.connections[0].wait(10)
    master.before_answer = lambda _: True
    client.jobs()
    assert master.calls == [0, 1]


def test_bytes_that_arrive_before_a_request_are_not_its_answer(
    master: Master, client: BlockingClient
):
    """A proxy before the masters may send an error before it closes an idle connection."""

    def hang_up_afterwards(handler: BaseHTTPRequestHandler) -> bool:
        handler.close_connection = True
        return True

    master.before_answer = hang_up_afterwards
    master.afterwards = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"
    client.jobs()
    master.was_read.set()
    assert master.connections[0].wait(10)
    master.afterwards = b""
    assert client.jobs() == []
    assert master.calls == [0, 1]


def test_a_call_is_repeated_if_the_master_closes_the_connection_at_that_moment(
    master: Master, client: BlockingClient
):
    client.jobs()
    master.before_answer = lambda handler: handler.number == 1  # type: ignore[attr-defined]
    assert client.jobs() == []
    assert master.calls == [0, 0, 1]


def test_after_a_refusal_the_next_call_opens_a_connection(master: Master, client: BlockingClient):
    master.refuses = True
    with pytest.raises(NotFound):
        client.jobs()
    assert master.connections[0].wait(10)
    master.refuses = False
    client.jobs()
    assert master.calls == [0, 1]


def test_a_forked_process_does_not_use_connections_of_its_parent(
    master: Master, client: BlockingClient, monkeypatch: pytest.MonkeyPatch
):
    client.jobs()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    client.jobs()
    assert master.calls == [0, 1]


def test_no_connection_is_left_when_the_client_is_closed(master: Master):
    with BlockingClient(master.url) as client:
        client.jobs()
    assert master.connections[0].wait(10)


def test_no_connection_is_left_when_the_client_is_no_longer_used(master: Master):
    client = BlockingClient(master.url)
    client.jobs()
    del client
    assert master.connections[0].wait(10)


def test_a_cluster_closes_its_connections_at_the_end_of_its_context() -> None:
    master = Master()
    with running(master):
        with stoker.connect(master.url) as cluster:
            cluster.jobs()
            cluster.jobs()
            assert master.calls == [0, 0]
            assert not master.connections[0].is_set()
        assert master.connections[0].wait(10)
