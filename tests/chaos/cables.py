"""Cables between the processes of a cluster and to its ZooKeeper servers; each can be cut.

A cut cable is silent, as a network is: nothing arrives, nothing is refused, and whatever was sent
meanwhile arrives when the cable is mended.
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

_HOST = "127.0.0.1"
"""Where proxies listen: what processes are told."""
_BEHIND = "127.0.0.2"
"""Where the processes themselves listen for RPC."""

Cable = str
"""To ZooKeeper, or of the RPC, of one process."""


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
        self._whole: dict[Cable, asyncio.Event] = {}
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
        """The URL that this process gets instead of the real one of the servers."""
        if process not in self._urls:
            opening = self._open_zookeeper(process, read_location(url))
            self._urls[process] = asyncio.run_coroutine_threadsafe(opening, self._loop).result(10)
        return self._urls[process]

    def rpc_settings(self, process: str) -> dict[str, str]:
        """The process listens behind its proxy, at the same port, and publishes the proxy."""
        if process not in self._ports:
            opening = self._open_rpc(process)
            self._ports[process] = asyncio.run_coroutine_threadsafe(opening, self._loop).result(10)
        is_master = process.startswith("master")
        owner, name = ("jobmanager", "rpc.address") if is_master else ("taskmanager", "host")
        return {
            f"{owner}.bind-host": _BEHIND,
            f"{owner}.{name}": _HOST,
            f"{owner}.rpc.port": str(self._ports[process]),
        }

    def cut(self, cable: Cable) -> None:
        self._loop.call_soon_threadsafe(self._end_of(cable).clear)

    def mend(self, cable: Cable) -> None:
        self._loop.call_soon_threadsafe(self._end_of(cable).set)

    def _end_of(self, cable: Cable) -> asyncio.Event:
        whole = self._whole.get(cable)
        if whole is None:
            whole = self._whole[cable] = asyncio.Event()
            whole.set()
        return whole

    async def _open_zookeeper(self, process: str, location: Location) -> str:
        cable = self._end_of(to_zookeeper(process))
        ports = []
        for server in location.hosts:
            host, _, port = server.rpartition(":")
            ports.append(await self._listen(0, (host, int(port)), lambda _: [cable]))
        return f"zookeeper://{','.join(f'{_HOST}:{port}' for port in ports)}{location.root}"

    async def _open_rpc(self, process: str) -> int:
        def ends(port: int) -> list[asyncio.Event]:
            caller = caller_from(port)
            return [self._end_of(rpc_of(each)) for each in (process, caller) if each]

        port = _free_port()
        return await self._listen(port, (_BEHIND, port), ends)

    async def _listen(self, port: int, behind: tuple[str, int], ends: "Ends") -> int:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                whole = ends(writer.get_extra_info("peername")[1])
                await _join(behind, whole, reader, writer)
            finally:
                self._tasks.discard(task)

        listening = await asyncio.start_server(connected, _HOST, port)
        taken: int = listening.sockets[0].getsockname()[1]
        return taken

    async def _end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


Ends = Callable[[int], list[asyncio.Event]]
"""By the caller's port: both ends of its connection, each of which may be cut off."""


def _free_port() -> int:
    """A port that is free at both addresses."""
    while True:
        with socket.socket() as front, socket.socket() as back:
            front.bind((_HOST, 0))
            port: int = front.getsockname()[1]
            with contextlib.suppress(OSError):
                back.bind((_BEHIND, port))
                return port


async def _join(
    behind: tuple[str, int],
    whole: list[asyncio.Event],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    with contextlib.suppress(OSError):
        await _until(whole)
        from_server, to_server = await asyncio.open_connection(*behind)
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


async def _until(whole: list[asyncio.Event]) -> None:
    while not all(end.is_set() for end in whole):
        for end in whole:
            await end.wait()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, whole: list[asyncio.Event]
) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            await _until(whole)
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
