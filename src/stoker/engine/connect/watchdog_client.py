"""The task executor's side of a Spark server's warden: tells it of leases."""

import asyncio
import math
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stoker.core.errors import StartupFailed
from stoker.engine.watchdog.leases import Guard, Release, Started, ToWarden, closed_mark
from stoker.osproc.process_tree import start_time

_LARGEST_MESSAGE = 4096


@dataclass(frozen=True, kw_only=True)
class Place:
    """Of a Spark server."""

    directory: Path
    log: Path
    closed: Path
    """Where runners mark the sessions that they have closed."""


class WardenLink:
    def __init__(self, control: socket.socket, closed: Path) -> None:
        self._control = control
        self._closed = closed
        self._unsent: dict[str, ToWarden] = {}
        """The last word on each session, while the warden reads nothing."""
        self._is_waiting = False

    async def started(self, died: "asyncio.Task[str]") -> int:
        """The process id of the server."""
        receiving = asyncio.create_task(
            asyncio.get_running_loop().sock_recv(self._control, _LARGEST_MESSAGE)
        )
        await asyncio.wait({receiving, died}, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            receiving.cancel()
        elif data := receiving.result():
            return msgspec.msgpack.decode(data, type=Started).pid
        raise StartupFailed(f"the Spark server's warden did not start: {await died}")

    def closed_mark(self, session_id: str) -> Path:
        return closed_mark(self._closed, session_id)

    def guard(self, session_id: str, until: float, runner: int | None) -> None:
        """Work of the session may go on until then, and no longer."""
        if math.isinf(until):
            return
        started = start_time(runner) if runner else None
        self._tell(
            Guard(session_id=session_id, until=until, runner=runner or 0, runner_started=started)
        )

    def release(self, session_id: str) -> None:
        self._tell(Release(session_id=session_id))

    def close(self) -> None:
        self._unsent.clear()
        self._wait_for_room(False)
        self._control.close()

    def _tell(self, message: ToWarden) -> None:
        if self._control.fileno() < 0:
            # The server is gone, and what was at it.
            return
        self._unsent[message.session_id] = message
        if not self._is_waiting:
            self._send_all()

    def _send_all(self) -> None:
        for session_id, message in list(self._unsent.items()):
            try:
                self._control.send(msgspec.msgpack.encode(message))
            except BlockingIOError:
                break
            except OSError:
                # The warden is gone, and the server with it, of which others hear.
                pass
            del self._unsent[session_id]
        self._wait_for_room(bool(self._unsent))

    def _wait_for_room(self, wanted: bool) -> None:
        if wanted and not self._is_waiting:
            asyncio.get_running_loop().add_writer(self._control, self._send_all)
        elif self._is_waiting and not wanted:
            asyncio.get_running_loop().remove_writer(self._control)
        self._is_waiting = wanted


async def start_guarded(
    command: list[str], environment: Mapping[str, str], place: Place
) -> tuple[asyncio.subprocess.Process, WardenLink]:
    """The process is the warden, which ends as the server does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    warden = (str(os.getpid()), str(theirs.fileno()), str(place.closed), "--")
    with theirs, place.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "stoker.engine.watchdog.main", *warden, *command),
            cwd=place.directory,
            env=environment,
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C at a terminal is for the task executor, which then ends this in order.
            start_new_session=True,
        )
    return process, WardenLink(ours, place.closed)
