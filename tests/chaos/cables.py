"""Simulated network cables: loopback proxies between the processes of a cluster; each can be cut.

A cut cable drops no data and refuses no connection, like a network that is partitioned for a while.
Nothing arrives, and all data that was sent in the meantime arrives when the cable is mended.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from chaos.callers import caller_from
from stoker.ha.zookeeper.location import Location, read_location
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import ClusterState

_PROXY_HOST = "127.0.0.1"
"""The address at which proxies listen, and which processes publish."""
_PROCESS_HOST = "127.0.0.2"
"""The address at which the processes themselves listen for RPC."""

Cable = str
"""Name of a cable: one process's connections to ZooKeeper, or its RPC connections."""


def to_zookeeper(process: str) -> Cable:
    return f"{process} to ZooKeeper"


def rpc_of(process: str) -> Cable:
    """The RPC address of a process; cutting it stops calls in either direction."""
    return f"RPC of {process}"


class Cables:
    """One loopback proxy for each destination, in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cables")
        self._intact: dict[Cable, asyncio.Event] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._urls: dict[str, str] = {}
        self._ports: dict[str, int] = {}

    def __enter__(self) -> "Cables":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def url_for(self, process: str, url: str) -> str:
        """The ZooKeeper URL with this process's proxies in place of the real servers."""
        if process not in self._urls:
            opening = self._open_zookeeper(process, read_location(url))
            self._urls[process] = asyncio.run_coroutine_threadsafe(opening, self._loop).result(10)
        return self._urls[process]

    def rpc_settings(self, process: str) -> dict[str, str]:
        """Settings of a process that listens behind its proxy and publishes the proxy's address."""
        if process not in self._ports:
            opening = self._open_rpc(process)
            self._ports[process] = asyncio.run_coroutine_threadsafe(opening, self._loop).result(10)
        is_master = process.startswith("master")
        owner, name = ("jobmanager", "rpc.address") if is_master else ("taskmanager", "host")
        return {
            f"{owner}.bind-host": _PROCESS_HOST,
            f"{owner}.{name}": _PROXY_HOST,
            f"{owner}.rpc.port": str(self._ports[process]),
        }

    def cut(self, cable: Cable) -> None:
        self._loop.call_soon_threadsafe(self._intact_event(cable).clear)

    def mend(self, cable: Cable) -> None:
        self._loop.call_soon_threadsafe(self._intact_event(cable).set)

    def _intact_event(self, cable: Cable) -> asyncio.Event:
        intact = asyncio.Event()
        intact.set()
        # In one step: a test and the thread of the proxies may ask for the same cable at once.
        return self._intact.setdefault(cable, intact)

    async def _open_zookeeper(self, process: str, location: Location) -> str:
        cable = self._intact_event(to_zookeeper(process))
        ports = []
        for server in location.hosts:
            host, _, port = server.rpartition(":")
            ports.append(await self._listen(0, (host, int(port)), lambda _: [cable]))
        return f"zookeeper://{','.join(f'{_PROXY_HOST}:{port}' for port in ports)}{location.root}"

    async def _open_rpc(self, process: str) -> int:
        def cables_of(port: int) -> list[asyncio.Event]:
            caller = caller_from(port)
            return [self._intact_event(rpc_of(each)) for each in (process, caller) if each]

        port = _free_port()
        return await self._listen(port, (_PROCESS_HOST, port), cables_of)

    async def _listen(self, port: int, server: tuple[str, int], cables_of: "CablesOf") -> int:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                intact = cables_of(writer.get_extra_info("peername")[1])
                await _join(server, intact, reader, writer)
            finally:
                self._tasks.discard(task)

        listening = await asyncio.start_server(connected, _PROXY_HOST, port)
        self._servers.append(listening)
        chosen: int = listening.sockets[0].getsockname()[1]
        return chosen

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


CablesOf = Callable[[int], list[asyncio.Event]]
"""Finds the cables of a connection by the caller's port; a set event is an intact cable."""


def _free_port() -> int:
    """A port that is free at both addresses, the proxy's and the process's."""
    while True:
        with socket.socket() as front, socket.socket() as back:
            front.bind((_PROXY_HOST, 0))
            port: int = front.getsockname()[1]
            with contextlib.suppress(OSError):
                back.bind((_PROCESS_HOST, port))
                return port


async def _join(
    server: tuple[str, int],
    intact: list[asyncio.Event],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    with contextlib.suppress(OSError):
        await _wait_until_intact(intact)
        from_server, to_server = await asyncio.open_connection(*server)
        try:
            pumps = [
                asyncio.ensure_future(_pump(reader, to_server, intact)),
                asyncio.ensure_future(_pump(from_server, writer, intact)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            to_server.transport.abort()
    writer.transport.abort()


async def _wait_until_intact(intact: list[asyncio.Event]) -> None:
    while not all(event.is_set() for event in intact):
        for event in intact:
            await event.wait()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, intact: list[asyncio.Event]
) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            await _wait_until_intact(intact)
            writer.write(data)
            await writer.drain()


class CabledCluster(LocalCluster):
    """A cluster in which every process has one cable to ZooKeeper and one for RPC."""

    def __init__(self, directory: Path, cables: Cables, *, tied: bool) -> None:
        super().__init__(directory, tied=tied)
        self._cables = cables

    def _command(
        self, name: str, count: int, plan: ClusterState, more: Mapping[str, str] | None = None
    ) -> list[str]:
        if not name.startswith("zookeeper") and plan.high_availability:
            url = self._cables.url_for(name, plan.high_availability)
            plan = msgspec.structs.replace(plan, high_availability=url)
            more = {**(more or {}), **self._cables.rpc_settings(name)}
        return super()._command(name, count, plan, more)


@contextmanager
def cut(cables: Cables, cable: Cable) -> Iterator[None]:
    cables.cut(cable)
    try:
        yield
    finally:
        cables.mend(cable)
