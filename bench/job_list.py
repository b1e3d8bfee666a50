"""`GET /jobs/overview` with 10,000 ended jobs and some that run: whole and in pages.

The REST server asks its dispatcher over gRPC, as in a master; the requests come from another
process, 50 a second, while ten of the running jobs change every second.
"""

import asyncio
import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Any

from bench.measure import Verdict
from stoker.core.graph import JobType
from stoker.core.ids import JobId, SessionId
from stoker.core.results import JobResult, JobSummary
from stoker.core.states import ExecutionState, JobStatus
from stoker.dispatcher.ended_jobs import EndedJobs
from stoker.dispatcher.live_list import LiveList
from stoker.gateways.dispatcher import DispatcherGateway, JobsSince
from stoker.rest.app import build_app
from stoker.rest.options import RestOptions
from stoker.rest.server import serving
from stoker.rest.services import RestServices
from stoker.rpc.grpc_transport import open_grpc
from stoker.rpc.options import RpcOptions
from stoker.rpc.service import Endpoint

ENDED = 10_000
LIVE = 50
CHANGING = 10
RATE = 50
SECONDS = 10
START = 1_790_000_000_000


class ManyJobs(Endpoint):
    gateway = DispatcherGateway

    def __init__(self) -> None:
        super().__init__("dispatcher")
        self._ended = EndedJobs(_ended(number) for number in range(ENDED))
        self._live = LiveList(_live)
        self._second = 0
        for number in range(LIVE):
            self._live.changed(_live_id(number))

    def jobs_since(
        self, leader: SessionId | None, revision: int, live_revision: int = -1
    ) -> JobsSince:
        if (now := int(time.time())) != self._second:
            self._second = now
            for number in range(CHANGING):
                self._live.changed(_live_id(number))
        now_live = self._live.revision
        changed = self._ended.changed_since(revision) if leader else None
        since = self._live.since(live_revision) if leader else None
        return JobsSince(
            leader=SessionId("bench"),
            revision=self._ended.revision,
            live=tuple(self._live.summaries() if since is None else since[0]),
            ended=tuple(self._ended.summaries()) if changed is None else (),
            whole=changed is None,
            live_revision=now_live,
            live_whole=since is None,
        )

    def __getattr__(self, name: str) -> Any:
        if name in vars(DispatcherGateway):
            return lambda *_: None
        raise AttributeError(name)


def _ended(number: int) -> JobResult:
    return JobResult(
        job_id=JobId(f"{number:032x}"),
        name=f"orders per hour {number}",
        job_type=JobType.BATCH,
        status=JobStatus.FINISHED,
        start=START + number * 1000,
        end=START + number * 1000 + 60_000,
        tasks={ExecutionState.FINISHED: 3},
    )


def _live_id(number: int) -> JobId:
    return JobId(f"{ENDED + number:032x}")


def _live(job_id: JobId) -> JobSummary:
    number = int(job_id, 16) - ENDED
    return JobSummary(
        job_id=job_id,
        name=f"stream {number}",
        job_type=JobType.STREAMING,
        status=JobStatus.RUNNING,
        start=START + number * 200_000,
        last_change=START + (int(time.time()) if number < CHANGING else 0),
        tasks={ExecutionState.RUNNING: 2},
    )


def _serve(link: Connection) -> None:
    asyncio.run(_serving(link))


async def _serving(link: Connection) -> None:
    rpc = await open_grpc("127.0.0.1", "0", RpcOptions())
    options = RestOptions(bind_port="0")
    async with rpc.running(ManyJobs()) as address:
        gateway = await rpc.connect(address, DispatcherGateway)

        async def dispatcher() -> DispatcherGateway:
            return gateway

        services = RestServices(
            dispatcher=dispatcher,
            blobs=None,  # type: ignore[arg-type]
            leads=lambda: True,
            leader_url=lambda: None,
            options=options,
            version="bench",
        )
        async with serving(build_app(services), options) as url:
            link.send(url)
            await asyncio.to_thread(link.recv)
    await rpc.close()


async def _ask(url: str, path: str, encoding: str, took: list[float]) -> None:
    """By hand: a client that copies every answer thrice would measure itself."""
    host, _, port = url.removeprefix("http://").partition(":")
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**24)
    writer.write(
        f"GET {path} HTTP/1.1\r\nhost: {host}:{port}\r\naccept-encoding: {encoding}\r\n"
        "connection: close\r\n\r\n".encode()
    )
    answer = await reader.read(-1)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
    took.append(time.perf_counter() - began)


async def _load(url: str, path: str, encoding: str) -> list[float]:
    took: list[float] = []
    await _ask(url, path, encoding, [])
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(RATE * SECONDS):
            await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            group.create_task(_ask(url, path, encoding, took))
    return sorted(took)


def run() -> list[Verdict]:
    verdicts = []
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,))
    server.start()
    try:
        url = here.recv()
        for name, path, encoding in (
            ("whole", "/jobs/overview", "identity"),
            ("a page of 50", "/jobs/overview?limit=50&offset=5000", "identity"),
            ("running ones", "/jobs/overview?state=RUNNING&sort=-last-modification", "identity"),
            ("whole, gzip accepted", "/jobs/overview", "gzip"),
        ):
            took = asyncio.run(_load(url, path, encoding))
            middle, late = took[len(took) // 2], took[int(len(took) * 0.99)]
            print(f"{name:20} p50 {middle * 1000:7.1f} ms   p99 {late * 1000:7.1f} ms", flush=True)
            verdicts.append(Verdict(f"list of {ENDED} jobs, {name}, p99", late * 1000, 200, "ms"))
    finally:
        here.send(None)
        server.join()
    return verdicts
