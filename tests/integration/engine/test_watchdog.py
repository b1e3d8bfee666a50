"""A server ends with its watchdog and when a lease expires; here the server is `sleep`."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from builders import eventually
from integration.engine.processes import PATIENCE, is_gone
from stoker.engine.connect.watchdog_client import WatchdogClient, start_watched
from stoker.engine.watchdog.leases import WatchLease
from stoker.osproc.exit import ProcessExit

LONG_SECONDS = 600.0
"""Longer than any test waits."""


@dataclass(frozen=True, kw_only=True)
class WatchedServer:
    watchdog: asyncio.subprocess.Process
    client: WatchdogClient
    server: int


@asynccontextmanager
async def watched_server(directory: Path, *command: str) -> AsyncIterator[WatchedServer]:
    closed = directory / "closed"
    closed.mkdir()
    command = command or ("sleep", str(LONG_SECONDS))
    watchdog, client = await start_watched(
        list(command),
        os.environ,
        directory=directory,
        log=directory / "log",
        closed_sessions=closed,
    )
    died = asyncio.create_task(_exit_of(watchdog))
    try:
        yield WatchedServer(
            watchdog=watchdog, client=client, server=await client.wait_until_started(died)
        )
    finally:
        if watchdog.returncode is None:
            watchdog.kill()
        await died
        client.close()


async def _exit_of(process: asyncio.subprocess.Process) -> ProcessExit:
    return ProcessExit(code=await process.wait())


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_server_and_a_runner_are_killed_when_their_lease_expires(tmp_path: Path) -> None:
    runner = subprocess.Popen(["sleep", str(LONG_SECONDS)])
    try:
        async with watched_server(tmp_path) as watched:
            watched.client.watch("session", now() + 0.3, runner.pid)
            watched.client.watch("another", now() + LONG_SECONDS, None)
            assert await watched.watchdog.wait() == -signal.SIGKILL, (
                "the watchdog ends like its server"
            )
            assert is_gone(watched.server)
            assert runner.wait(60) == -signal.SIGKILL
    finally:
        runner.kill()
        runner.wait()
    assert "the lease of session session has expired" in (tmp_path / "log").read_text()


async def test_a_lease_that_is_renewed_unwatched_or_closed_kills_nothing(tmp_path: Path) -> None:
    async with watched_server(tmp_path) as watched:
        soon = now() + 1.5
        for session in ("renewed", "released", "closed"):
            watched.client.watch(session, soon, None)
        watched.client.watch("renewed", now() + LONG_SECONDS, None)
        watched.client.unwatch("released")
        watched.client.closed_marker("closed").touch()
        await asyncio.sleep(2)
        assert not is_gone(watched.server)
        # A renewal that another one has overtaken shortens no lease.
        watched.client.watch("renewed", 0.0, None)
        # Sent last, so the watchdog has handled everything before.
        watched.client.watch("over", now(), None)
        await watched.watchdog.wait()
    log = (tmp_path / "log").read_text()
    assert "the lease of session over has expired" in log
    assert log.count("has expired") == 1


async def test_a_process_that_reuses_the_id_of_the_runner_is_spared(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", str(LONG_SECONDS)])
    try:
        async with watched_server(tmp_path) as watched:
            previous = WatchLease(
                session_id="session", until=now() + 0.3, runner=other.pid, runner_started=1
            )
            watched.client._send(previous)
            await watched.watchdog.wait()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_a_server_dies_with_its_watchdog(tmp_path: Path) -> None:
    async with watched_server(tmp_path) as watched:
        watched.watchdog.kill()
        await eventually(lambda: is_gone(watched.server), seconds=PATIENCE)


async def test_a_server_dies_with_its_task_executor(tmp_path: Path) -> None:
    """The task executor is another process here, and the watchdog its child."""
    source = (
        "import asyncio, os, sys, time; from pathlib import Path\n"
        "from stoker.engine.connect.watchdog_client import start_watched\n"
        "here = Path(sys.argv[1])\n"
        "async def main():\n"
        "    process, client = await start_watched(['sleep', '600'], os.environ,"
        "        directory=here, log=here / 'log', closed_sessions=here)\n"
        "    died = asyncio.create_task(process.wait())\n"
        "    print(await client.wait_until_started(died), flush=True)\n"
        "    time.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", source, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as executor:
        assert executor.stdout is not None
        server = int(executor.stdout.readline())
        assert not is_gone(server)
        executor.kill()
    await eventually(lambda: is_gone(server), seconds=PATIENCE)


async def test_a_watchdog_forwards_sigterm_and_ends_like_its_server(tmp_path: Path) -> None:
    polite = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "open('ready', 'w').close()\n"
        "time.sleep(600)\n"
    )
    async with watched_server(tmp_path, sys.executable, "-c", polite) as watched:
        await eventually((tmp_path / "ready").exists, seconds=PATIENCE)
        watched.watchdog.terminate()
        assert await watched.watchdog.wait() == 7
