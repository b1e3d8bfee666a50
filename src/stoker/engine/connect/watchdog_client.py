"""The task executor's side of the watchdog: starts a watched Spark server, sends it leases."""

import asyncio
import math
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from stoker.aio.race import StoppedFirst, run_unless
from stoker.core.errors import StartupFailed
from stoker.engine.watchdog.leases import Started, ToWatchdog, Unwatch, WatchLease, closed_marker
from stoker.osproc.exit import ProcessExit
from stoker.osproc.private_files import with_umask
from stoker.osproc.process_tree import start_time

_LARGEST_MESSAGE = 4096


class WatchdogClient:
    def __init__(self, control: socket.socket, closed_sessions: Path) -> None:
        self._control = control
        self._closed_sessions = closed_sessions
        self._unsent: dict[str, ToWatchdog] = {}
        """The latest message for each session, while the watchdog reads nothing."""
        self._is_waiting = False

    async def wait_until_started(self, died: "asyncio.Task[ProcessExit]") -> int:
        """Return the process id of the Spark server; raise StartupFailed if the watchdog died."""
        receiving = asyncio.get_running_loop().sock_recv(self._control, _LARGEST_MESSAGE)
        with suppress(StoppedFirst):
            if data := await run_unless(died, receiving):
                return msgspec.msgpack.decode(data, type=Started).pid
        ended = await died
        raise StartupFailed(f"the Spark server's watchdog did not start: {ended.describe()}")

    def closed_marker(self, session_id: str) -> Path:
        return closed_marker(self._closed_sessions, session_id)

    def watch(self, session_id: str, until: float, runner: int | None) -> None:
        """Have the watchdog end the session's work at that moment, unless renewed before."""
        if math.isinf(until):
            return
        started = start_time(runner) if runner else None
        self._send(
            WatchLease(
                session_id=session_id, until=until, runner=runner or 0, runner_started=started
            )
        )

    def unwatch(self, session_id: str) -> None:
        self._send(Unwatch(session_id=session_id))

    def close(self) -> None:
        self._unsent.clear()
        self._wait_for_room(False)
        self._control.close()

    def _send(self, message: ToWatchdog) -> None:
        if self._control.fileno() < 0:
            # The server is gone, and with it all of its work.
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
                # The watchdog is gone, and the server with it: `SparkServer.died` reports that.
                pass
            del self._unsent[session_id]
        self._wait_for_room(bool(self._unsent))

    def _wait_for_room(self, wanted: bool) -> None:
        if wanted and not self._is_waiting:
            asyncio.get_running_loop().add_writer(self._control, self._send_all)
        elif self._is_waiting and not wanted:
            asyncio.get_running_loop().remove_writer(self._control)
        self._is_waiting = wanted


async def start_watched(
    command: list[str],
    environment: Mapping[str, str],
    *,
    directory: Path,
    log: Path,
    closed_sessions: Path,
    umask: str | None = None,
) -> tuple[asyncio.subprocess.Process, WatchdogClient]:
    """Start a Spark server below a watchdog; return the watchdog, which exits as the server does.

    `closed_sessions`: the directory in which runners mark the sessions that they have closed.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    watchdog = (sys.executable, "-P", "-m", "stoker.engine.watchdog.main")
    arguments = (str(os.getpid()), str(theirs.fileno()), str(closed_sessions), "--")
    with theirs, log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *with_umask(umask, *watchdog, *arguments, *command),
            cwd=directory,
            env=environment,
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Ctrl-C at a terminal is for the task executor alone, which then stops the server.
            start_new_session=True,
        )
    return process, WatchdogClient(ours, closed_sessions)
