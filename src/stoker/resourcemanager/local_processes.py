"""The provider that starts task executors as child processes on this machine.

The kernel kills them when this process dies, however it dies. When this process is shut down, it
terminates them first. The Spark engine and the runners of a task executor die with it.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from stoker.core.errors import Conflict, StartupFailed
from stoker.core.failpoints import failpoint
from stoker.core.ids import Ids, ResourceId
from stoker.osproc.exit import ProcessExit
from stoker.osproc.parent_death import die_with_parent_command
from stoker.resourcemanager.provider import EndedExecutor, ExecutorOffer

log = logging.getLogger(__name__)

Command = Callable[[ResourceId], list[str]]
"""The command line of a task executor with this id."""

GRACE = timedelta(seconds=10)
LOGS_KEPT = 20


@dataclass
class _Child:
    process: asyncio.subprocess.Process
    log: Path
    reaper: "asyncio.Task[None]"


@dataclass
class LocalProcessProvider:
    """A context manager that leaves no process behind."""

    command: Command
    limit: int
    offer: ExecutorOffer
    log_dir: Path
    ids: Ids
    environment: Mapping[str, str] | None = None
    grace: timedelta = GRACE
    forget: Callable[[ResourceId], None] = lambda _: None
    """Removes the files of a task executor that has ended."""
    _children: dict[ResourceId, _Child] = field(default_factory=dict)
    _starting: int = 0
    _ends: "asyncio.Queue[EndedExecutor]" = field(default_factory=asyncio.Queue)
    _closed: bool = False

    async def __aenter__(self) -> Self:
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self._forget_old_logs()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed = True
        await asyncio.gather(*(self.stop(resource_id) for resource_id in self.alive()))

    def alive(self) -> tuple[ResourceId, ...]:
        return tuple(self._children)

    async def start(self) -> ResourceId:
        if self._closed or len(self._children) + self._starting >= self.limit:
            raise Conflict(
                f"this master starts at most {self.limit} task executors "
                "(resourcemanager.local-process.max-task-executors)"
            )
        resource_id = self.ids.resource("local")
        path = self.log_dir / f"{resource_id}.log"
        self._starting += 1
        try:
            failpoint("provider.before-start")
            process = await self._spawn(resource_id, path)
            failpoint("provider.after-start")
        except OSError as error:
            raise StartupFailed(
                f"no task executor can be started here: {error.strerror or error}"
            ) from error
        finally:
            self._starting -= 1
        reaper = asyncio.create_task(self._reap(resource_id), name=f"reap {resource_id}")
        self._children[resource_id] = _Child(process, path, reaper)
        if self._closed:
            await self.stop(resource_id)
            raise Conflict("this master is stopping and starts no more task executors")
        return resource_id

    async def _spawn(self, resource_id: ResourceId, path: Path) -> asyncio.subprocess.Process:
        with path.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                # The parent-death signal follows the forking thread; the loop runs in the main one.
                *die_with_parent_command(*self.command(resource_id)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=None if self.environment is None else dict(self.environment),
                start_new_session=True,
            )

    async def stop(self, resource_id: ResourceId) -> None:
        child = self._children.get(resource_id)
        if child is None:
            return
        failpoint("provider.before-stop")
        _signal(child.process, signal.SIGTERM)
        done, _ = await asyncio.wait({child.reaper}, timeout=self.grace.total_seconds())
        if not done:
            log.error("task executor %s did not end in time and is killed", resource_id)
            _signal(child.process, signal.SIGKILL)
            await asyncio.wait({child.reaper})

    async def next_end(self) -> EndedExecutor:
        return await self._ends.get()

    async def _reap(self, resource_id: ResourceId) -> None:
        child = self._children[resource_id]
        status = await child.process.wait()
        # Kill the rest of its session; its direct children have died with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, signal.SIGKILL)
        self._children.pop(resource_id, None)
        self.forget(resource_id)
        self._ends.put_nowait(
            EndedExecutor(resource_id=resource_id, reason=_end_reason(status, child.log))
        )

    def _forget_old_logs(self) -> None:
        logs = sorted(self.log_dir.glob("local-*.log"), key=lambda path: path.stat().st_mtime)
        for path in logs[:-LOGS_KEPT]:
            path.unlink(missing_ok=True)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _end_reason(status: int, log_file: Path) -> str:
    """How the process ended, with the last lines of its log if it failed."""
    if status == 0:
        return "it ended"
    how = ProcessExit(code=status).describe()
    try:
        text = log_file.read_text(errors="replace")[-4000:]
    except OSError:
        text = ""
    last = " / ".join(line.strip() for line in text.splitlines() if line.strip()[:1])[-300:]
    return f"it ended ({how})" + (f": {last}" if last else "")
