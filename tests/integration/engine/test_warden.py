"""A server ends with its warden, and when a lease at it is over; here the server is `sleep`."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from integration.engine.processes import is_gone, until
from stoker.engine.connect.watchdog_client import Place, WardenLink, start_guarded
from stoker.engine.watchdog.leases import Guard

LONG_SECONDS = 600.0
"""What no test waits for."""


@dataclass(frozen=True, kw_only=True)
class Guarded:
    warden: asyncio.subprocess.Process
    link: WardenLink
    server: int


@asynccontextmanager
async def guarded(directory: Path, *command: str) -> AsyncIterator[Guarded]:
    closed = directory / "closed"
    closed.mkdir()
    place = Place(directory=directory, log=directory / "log", closed=closed)
    command = command or ("sleep", str(LONG_SECONDS))
    warden, link = await start_guarded(list(command), os.environ, place)
    died = asyncio.create_task(_death_of(warden))
    try:
        yield Guarded(warden=warden, link=link, server=await link.started(died))
    finally:
        if warden.returncode is None:
            warden.kill()
        await died
        link.close()


async def _death_of(process: asyncio.subprocess.Process) -> str:
    return str(await process.wait())


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_work_whose_lease_is_over_is_killed_with_its_server(tmp_path: Path) -> None:
    runner = subprocess.Popen(["sleep", str(LONG_SECONDS)])
    try:
        async with guarded(tmp_path) as at:
            at.link.guard("session", now() + 0.3, runner.pid)
            at.link.guard("another", now() + LONG_SECONDS, None)
            assert await at.warden.wait() == -signal.SIGKILL, "it ends as its server did"
            assert is_gone(at.server)
            assert runner.wait(60) == -signal.SIGKILL
    finally:
        runner.kill()
        runner.wait()
    assert "the lease of session session is over" in (tmp_path / "log").read_text()


async def test_work_that_is_renewed_released_or_closed_goes_on(tmp_path: Path) -> None:
    async with guarded(tmp_path) as at:
        soon = now() + 0.5
        for session in ("renewed", "released", "closed"):
            at.link.guard(session, soon, None)
        at.link.guard("renewed", now() + LONG_SECONDS, None)
        at.link.release("released")
        at.link.closed_mark("closed").touch()
        await asyncio.sleep(1)
        assert not is_gone(at.server)
        # Only now the last one: so what came before was heard and judged.
        at.link.guard("renewed", 0.0, None)
        at.link.guard("over", now(), None)
        await at.warden.wait()


async def test_another_process_with_the_number_of_the_runner_is_spared(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", str(LONG_SECONDS)])
    try:
        async with guarded(tmp_path) as at:
            former = Guard(
                session_id="session", until=now() + 0.3, runner=other.pid, runner_started=1
            )
            at.link._tell(former)
            await at.warden.wait()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_a_server_ends_with_its_warden(tmp_path: Path) -> None:
    async with guarded(tmp_path) as at:
        at.warden.kill()
        await until(lambda: is_gone(at.server))


async def test_a_server_ends_with_its_task_executor(tmp_path: Path) -> None:
    """Which is another process here; its warden is a child of that one."""
    source = (
        "import asyncio, os, sys, time; from pathlib import Path\n"
        "from stoker.engine.connect.watchdog_client import Place, start_guarded\n"
        "here = Path(sys.argv[1])\n"
        "async def main():\n"
        "    place = Place(directory=here, log=here / 'log', closed=here)\n"
        "    process, link = await start_guarded(['sleep', '600'], os.environ, place)\n"
        "    died = asyncio.create_task(process.wait())\n"
        "    print(await link.started(died), flush=True)\n"
        "    time.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", source, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as executor:
        assert executor.stdout is not None
        server = int(executor.stdout.readline())
        assert not is_gone(server)
        executor.kill()
    await until(lambda: is_gone(server))


async def test_a_wish_for_its_end_is_passed_on_and_its_status_told(tmp_path: Path) -> None:
    polite = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "open('ready', 'w').close()\n"
        "time.sleep(600)\n"
    )
    async with guarded(tmp_path, sys.executable, "-c", polite) as at:
        await until((tmp_path / "ready").exists)
        at.warden.terminate()
        assert await at.warden.wait() == 7
