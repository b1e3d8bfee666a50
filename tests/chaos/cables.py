"""Cables between the processes of a cluster and its ZooKeeper servers, to be cut one by one.

A cut cable is silent, as a network is: nothing arrives, nothing is refused, and what was sent
meanwhile arrives when it is mended.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from stoker.ha.zookeeper.location import Location, read_location
from stoker.processes.local_cluster import LocalCluster
from stoker.processes.local_cluster_state import ClusterState

_HOST = "127.0.0.1"


class Cables:
    """One proxy on loopback for each process and server; runs in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cables")
        self._whole: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._urls: dict[str, str] = {}

    def __enter__(self) -> "Cables":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def url_for(self, process: str, url: str) -> str:
        """What this process is told instead of the real URL of the servers."""
        if process not in self._urls:
            opening = self._open(process, read_location(url))
            self._urls[process] = asyncio.run_coroutine_threadsafe(opening, self._loop).result(10)
        return self._urls[process]

    def cut(self, process: str) -> None:
        self._loop.call_soon_threadsafe(self._whole[process].clear)

    def mend(self, process: str) -> None:
        self._loop.call_soon_threadsafe(self._whole[process].set)

    async def _open(self, process: str, location: Location) -> str:
        self._whole[process] = asyncio.Event()
        self._whole[process].set()
        ports = [await self._listen(process, server) for server in location.hosts]
        return f"zookeeper://{','.join(f'{_HOST}:{port}' for port in ports)}{location.root}"

    async def _listen(self, process: str, server: str) -> int:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._join(process, server, reader, writer)
            finally:
                self._tasks.discard(task)

        listening = await asyncio.start_server(connected, _HOST, 0)
        port: int = listening.sockets[0].getsockname()[1]
        return port

    async def _join(
        self, process: str, server: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = server.rpartition(":")
        whole = self._whole[process]
        with contextlib.suppress(OSError):
            await whole.wait()
            from_server, to_server = await asyncio.open_connection(host, int(port))
            try:
                pumps = [
                    asyncio.ensure_future(_pump(reader, to_server, whole)),
                    asyncio.ensure_future(_pump(from_server, writer, whole)),
                ]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
            finally:
                to_server.transport.abort()
        writer.transport.abort()

    async def _end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, whole: asyncio.Event
) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            await whole.wait()
            writer.write(data)
            await writer.drain()


class CabledCluster(LocalCluster):
    """Each of its masters and task executors reaches ZooKeeper by a cable of its own."""

    def __init__(self, directory: Path, cables: Cables, *, tied: bool) -> None:
        super().__init__(directory, tied=tied)
        self._cables = cables

    def _command(
        self, name: str, count: int, plan: ClusterState, more: Mapping[str, str] | None = None
    ) -> list[str]:
        if not name.startswith("zookeeper") and plan.high_availability:
            url = self._cables.url_for(name, plan.high_availability)
            plan = msgspec.structs.replace(plan, high_availability=url)
        return super()._command(name, count, plan, more)


@contextmanager
def cut(cables: Cables, process: str) -> Iterator[None]:
    cables.cut(process)
    try:
        yield
    finally:
        cables.mend(process)
