"""The task executor's side of the zygote: asks for forks and kills, hears of every exit."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import msgspec

from stoker.core.errors import Unavailable
from stoker.core.failpoints import failpoint
from stoker.engine.child_channel import TalkingProcess, line_over
from stoker.engine.connect.server import exit_in_words
from stoker.engine.protocol import (
    Exited,
    Fork,
    Forked,
    FromZygote,
    Kill,
    ToZygote,
)
from stoker.osproc.log_pump import LogPump
from stoker.osproc.orphans import OWNER, owner_mark
from stoker.osproc.parent_death import SINGLE_THREADED, tethered
from stoker.osproc.pipe_end import PipeEnd

_LARGEST_REPORT = 4096
_STOP_SECONDS = 5.0
_LAST_WORDS_SECONDS = 5.0
"""After the end of a process, for what it has said before; then nobody listens any more."""


class ForkedProcess(TalkingProcess):
    """A runner or a janitor."""

    def __init__(
        self,
        number: int,
        link: "ZygoteLink",
        line: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        output: tuple[LogPump, LogPump],
    ) -> None:
        super().__init__(*line, output)
        self._number = number
        self._link = link
        self.pid: int | None = None
        self.exited: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """How it ended, in words; set when the process and its group are gone."""

    @property
    def is_alive(self) -> bool:
        return not self.exited.done()

    async def kill(self) -> str:
        """Kill it with all processes of its group; returns when they are gone."""
        if self.is_alive:
            failpoint("runner.before-kill")
            self._link.ask_to_kill(self._number)
        ending = await asyncio.shield(self.exited)
        await self.hang_up()
        return ending


class ZygoteLink:
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
        number = self._count
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as pipes:
            line = await line_over(ours)
            (output, out), (errors, err) = [self._pump(pipes) for _ in range(2)]
            process = ForkedProcess(number, self, line, (output, errors))
            self._forked[number] = process
            request = msgspec.msgpack.encode(Fork(runner=number, janitor=janitor))
            try:
                socket.send_fds(self._control, [request], [theirs.fileno(), out, err])
            except OSError as error:
                del self._forked[number]
                line[1].close()
                raise Unavailable("the process that starts runners does not answer") from error
        return process

    def _pump(self, pipes: ExitStack) -> tuple[LogPump, int]:
        """What carries an output stream, and the end that the process writes to."""
        reading, writing = os.pipe()
        pipes.callback(os.close, writing)
        pipe = PipeEnd(reading)
        try:
            return LogPump(pipe, self._log, self._log_bytes), writing
        except BaseException:
            pipe.close()
            raise

    def ask_to_kill(self, number: int) -> None:
        self._tell(Kill(runner=number))

    def _tell(self, message: ToZygote) -> None:
        # When the zygote is gone, so are its children, and `_watch` says so.
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
                self._forked[number].pid = pid
            case Exited(runner=number, status=status):
                self._end(self._forked.pop(number), exit_in_words(status))

    def _end(self, process: ForkedProcess, ending: str) -> None:
        process.exited.set_result(ending)
        # Mostly the kernel has closed the line by then. No task may wait for one that it has not.
        asyncio.get_running_loop().call_later(_LAST_WORDS_SECONDS, process.hear_no_more)

    async def _watch(self) -> str:
        code = await self._process.wait()
        while self._forked:
            _, process = self._forked.popitem()
            if process.pid is not None:
                # The kernel kills the runner; this reaches what it has started.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            self._end(
                process,
                f"killed because the process it was forked from ended ({exit_in_words(code)})",
            )
        return exit_in_words(code)

    async def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        await asyncio.wait([self.died], timeout=_STOP_SECONDS)
        if not self.died.done():
            # Its runners are tied to it by the kernel.
            self._process.kill()
        await self.died


@asynccontextmanager
async def running_zygote(log: Path, log_bytes: int) -> AsyncIterator[ZygoteLink]:
    """Starts a zygote; at the end, it and every process forked from it are gone."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    command = tethered(
        sys.executable,
        "-m",
        "stoker.engine.zygote.main",
        str(theirs.fileno()),
        # A signal that it can handle: it takes along whatever its runners have started.
        death_signal=signal.SIGTERM,
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    with theirs, log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **SINGLE_THREADED, OWNER: owner_mark()},
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    link = ZygoteLink(process, ours, log, log_bytes)
    try:
        yield link
    finally:
        await link.close()
