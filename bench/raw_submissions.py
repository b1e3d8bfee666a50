"""Jobs handed in as fast as a master takes them, from a process of its own.

The requests are made beforehand and sent over connections that stay open: what a client does to
make them is not measured here.
"""

import multiprocessing
import socket
import threading
from multiprocessing.connection import Connection
from time import perf_counter

from stoker import Pipeline
from stoker.client.submission import SubmissionBody, new_boundary
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids

CONNECTIONS = 16


def small_job(ids: Ids) -> JobGraph:
    pipeline = Pipeline("small")
    pipeline.source("rows", format="json", path="/in")
    pipeline.sink("rows", name="out", format="noop", mode="overwrite")
    return pipeline.build(job_id=ids.job())


def accepted_a_second(url: str, jobs: int) -> float:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_submit, args=(url, jobs, there))
    process.start()
    try:
        return float(here.recv())
    finally:
        process.join(timeout=30)
        process.kill()


def _submit(url: str, jobs: int, link: Connection) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    ids = Ids()
    requests = [_request(small_job(ids), f"{host}:{port}") for _ in range(jobs)]
    lines = [socket.create_connection((host, int(port))) for _ in range(CONNECTIONS)]
    threads = [
        threading.Thread(target=_send_all, args=(line, requests[place::CONNECTIONS]))
        for place, line in enumerate(lines)
    ]
    begin = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    link.send(jobs / (perf_counter() - begin))


def _request(graph: JobGraph, host: str) -> bytes:
    body = SubmissionBody(graph, {}, new_boundary())
    headers = "".join(f"{name}: {value}\r\n" for name, value in body.headers.items())
    return f"POST /jobs HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n".encode() + b"".join(
        body.pieces()
    )


def _send_all(line: socket.socket, requests: list[bytes]) -> None:
    for request in requests:
        line.sendall(request)
        answer = line.recv(65536)
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
            piece = line.recv(65536)
            assert piece, answer
            answer += piece
        assert answer.startswith(b"HTTP/1.1 202"), answer
