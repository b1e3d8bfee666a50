"""The task executor's side of the zygote: requests forks and kills, receives every exit."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import msgspec

from stoker.core.errors import Unavailable
from stoker.core.failpoints import failpoint
from stoker.engine.child_channel import ChildChannel, open_channel
from stoker.engine.protocol import (
    ZYGOTE_ENVIRONMENT,
    Exited,
    Fork,
    Forked,
    FromZygote,
    Kill,
    ToZygote,
)
from stoker.osproc.captured_output import LogPump, PipeReader
from stoker.osproc.exit import ProcessExit
from stoker.osproc.orphans import OWNER, owner_mark
from stoker.osproc.parent_death import die_with_parent_command
from stoker.osproc.private_files import with_umask

_LARGEST_REPORT = 4096
_STOP_SECONDS = 5.0
_LAST_WORDS_SECONDS = 5.0
"""How long after the end of a process the messages that it had sent may still be received."""


class ForkedProcess(ChildChannel):
    """A runner or a janitor."""

    def __init__(
        self,
        number: int,
        zygote: "ZygoteClient",
        channel: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        output: tuple[LogPump, LogPump],
    ) -> None:
        super().__init__(*channel, output)
        self._number = number
        self._zygote = zygote
        self.pid: int | None = None
        self.exited: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()
        """Done when the process and all that it started are gone, or when its zygote is gone."""

    @property
    def is_alive(self) -> bool:
        return not self.exited.done()

    async def kill(self) -> ProcessExit:
        """Kill the process with all that it has started; return when its output has ended."""
        if self.is_alive:
            failpoint("runner.before-kill")
            self._zygote.request_kill(self._number)
        ended = await asyncio.shield(self.exited)
        await self.close_channel()
        return ended


class ZygoteClient:
    def __init__(
        self,
        process: asyncio.subprocess.Process,
        control: socket.socket,
        log: Path,
        log_bytes: int,
    ) -> None:
        self._process = process
        self._control = control
        self._log = log
        self._log_bytes = log_bytes
        self._forked: dict[int, ForkedProcess] = {}
        self._count = 0
        self._decoder = msgspec.msgpack.Decoder(FromZygote)
        self.died = asyncio.create_task(self._watch(), name="zygote")
        asyncio.get_running_loop().add_reader(control.fileno(), self._on_report)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def fork(self, *, janitor: bool = False) -> ForkedProcess:
        if self.died.done():
            raise Unavailable("the process that starts runners is gone; it is being restarted")
        self._count += 1
        try:
            return await self._fork(Fork(runner=self._count, janitor=janitor))
        except OSError as error:
            # The zygote does not answer, or this process may open no more files.
            raise Unavailable(f"no runner can be started: {error}") from error

    async def _fork(self, request: Fork) -> ForkedProcess:
        """Send the zygote the child's ends of a channel and of two pipes; keep the others."""
        with ExitStack() as child, ExitStack() as undo:
            ours, theirs = socket.socketpair()
            child.enter_context(theirs)
            reader, writer = await open_channel(ours)
            undo.callback(writer.close)
            # A pump ends when the child's end of its pipe is closed.
            (output, out), (errors, err) = [self._open_pump(child) for _ in range(2)]
            descriptors = [theirs.fileno(), out, err]
            socket.send_fds(self._control, [msgspec.msgpack.encode(request)], descriptors)
            undo.pop_all()
        process = ForkedProcess(request.runner, self, (reader, writer), (output, errors))
        self._forked[request.runner] = process
        return process

    def _open_pump(self, child: ExitStack) -> tuple[LogPump, int]:
        """A pump for one output stream, and the child's end of its pipe."""
        reading, writing = os.pipe()
        child.callback(os.close, writing)
        pipe = PipeReader(reading)
        try:
            return LogPump(pipe, self._log, self._log_bytes), writing
        except BaseException:
            pipe.close()
            raise

    def request_kill(self, number: int) -> None:
        self._send(Kill(runner=number))

    def _send(self, message: ToZygote) -> None:
        # When the zygote is gone, so are its children; `_watch` handles that.
        with suppress(OSError):
            self._control.send(msgspec.msgpack.encode(message))

    def _on_report(self) -> None:
        try:
            data = self._control.recv(_LARGEST_REPORT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            return
        match self._decoder.decode(data):
            case Forked(runner=number, pid=pid):
                if (process := self._forked.get(number)) is not None:
                    process.pid = pid
            case Exited(runner=number, status=status):
                # None if the zygote's own end was noticed before its last reports.
                if (process := self._forked.pop(number, None)) is not None:
                    self._end(process, ProcessExit(code=status))

    def _end(self, process: ForkedProcess, ended: ProcessExit) -> None:
        process.exited.set_result(ended)
        # The kernel has usually closed the channel by now. Otherwise nobody may wait for its end.
        asyncio.get_running_loop().call_later(_LAST_WORDS_SECONDS, process.end_input)

    async def _watch(self) -> ProcessExit:
        zygote = ProcessExit(code=await self._process.wait())
        while self._forked:
            _, process = self._forked.popitem()
            if process.pid is not None:
                # The kernel kills the runner; this kills the processes that it has started.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            self._end(process, ProcessExit(code=-signal.SIGKILL, parent=zygote))
        return zygote

    async def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        await asyncio.wait([self.died], timeout=_STOP_SECONDS)
        if not self.died.done():
            # The kernel kills its runners with it.
            self._process.kill()
        await self.died


@asynccontextmanager
async def running_zygote(
    log: Path, log_bytes: int, environment: Mapping[str, str], umask: str | None = None
) -> AsyncIterator[ZygoteClient]:
    """Start a zygote; at the end, the zygote and every process forked from it are gone.

    Runners inherit `environment` and `umask`.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    command = die_with_parent_command(
        sys.executable,
        "-m",
        "stoker.engine.zygote.main",
        str(theirs.fileno()),
        # A signal that it can handle: it then kills what its runners have started.
        death_signal=signal.SIGTERM,
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    with theirs, log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *with_umask(umask, *command),
            env={**environment, **ZYGOTE_ENVIRONMENT, OWNER: owner_mark()},
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    zygote = ZygoteClient(process, ours, log, log_bytes)
    try:
        yield zygote
    finally:
        await zygote.close()
