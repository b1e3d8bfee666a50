"""The contract of Provider, run on every implementation."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from builders import wait_until
from stoker.core.errors import Conflict, StartupFailed
from stoker.core.graph import ResourceProfile
from stoker.core.ids import Ids, ResourceId
from stoker.resourcemanager.local_processes import LocalProcessProvider
from stoker.resourcemanager.provider import ExecutorOffer, Provider, StandaloneProvider

LIMIT = 2
PATIENCE = 60.0
SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('ready', flush=True); time.sleep(600)",
]


def local(folder: Path, command: list[str] | None = None, **more: float) -> LocalProcessProvider:
    return LocalProcessProvider(
        command=lambda _: command or SLEEPER,
        limit=LIMIT,
        offer=ExecutorOffer(slots=2, profile=ResourceProfile(cores=1, memory_bytes=1)),
        log_dir=folder / "log",
        ids=Ids(random.Random(1)),
        grace=timedelta(seconds=more.get("grace", 30)),
    )


@asynccontextmanager
async def open_provider(kind: str, folder: Path) -> AsyncIterator[Provider]:
    if kind == "standalone":
        yield StandaloneProvider()
    else:
        async with local(folder) as provider:
            yield provider


@pytest.fixture(params=["standalone", "local-process"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pid_of(provider: LocalProcessProvider, resource_id: ResourceId) -> int:
    return provider._children[resource_id].process.pid


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# Every provider


async def test_a_provider_never_exceeds_its_limit_and_raises_a_conflict(
    kind: str, tmp_path: Path
) -> None:
    """It has started as many as the limit allows (SM-13)."""
    async with open_provider(kind, tmp_path) as provider:
        started = [await provider.start() for _ in range(provider.limit)]
        assert provider.alive() == tuple(started)
        with pytest.raises(Conflict):
            await provider.start()


async def test_a_provider_has_an_offer_exactly_when_it_can_start_executors(
    kind: str, tmp_path: Path
) -> None:
    async with open_provider(kind, tmp_path) as provider:
        assert (provider.offer is not None) == (provider.limit > 0)


async def test_stopping_an_unknown_executor_is_harmless(kind: str, tmp_path: Path) -> None:
    async with open_provider(kind, tmp_path) as provider:
        await provider.stop(ResourceId("nobody"))
        assert provider.alive() == ()


async def test_a_running_executor_is_not_reported_as_ended(kind: str, tmp_path: Path) -> None:
    async with open_provider(kind, tmp_path) as provider:
        waiting = asyncio.create_task(provider.next_end())
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()


# Providers that start processes


async def test_a_stopped_executor_is_reported_once_and_frees_its_place(tmp_path: Path) -> None:
    async with local(tmp_path) as provider:
        one, other = await provider.start(), await provider.start()
        pid = pid_of(provider, one)
        await provider.stop(one)
        assert not is_alive(pid)
        assert provider.alive() == (other,)
        assert (await provider.next_end()).resource_id == one
        await provider.stop(one)
        assert await provider.start() not in (one, other)


async def test_the_death_of_an_executor_is_reported_with_its_reason(tmp_path: Path) -> None:
    """The reason names the signal that killed it (RM-18)."""
    async with local(tmp_path) as provider:
        victim = await provider.start()
        os.kill(pid_of(provider, victim), signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            ended = await provider.next_end()
        assert ended.resource_id == victim
        assert "SIGKILL" in ended.reason
        assert provider.alive() == ()


async def test_a_failed_start_is_reported_with_the_output_of_the_process(tmp_path: Path) -> None:
    """The reason has its exit code, too (RM-19)."""
    command = [sys.executable, "-c", "raise SystemExit('no Java here')"]
    async with local(tmp_path, command) as provider:
        await provider.start()
        async with asyncio.timeout(PATIENCE):
            ended = await provider.next_end()
        assert "exit code 1" in ended.reason
        assert "no Java here" in ended.reason


async def test_a_command_that_cannot_be_started_raises(tmp_path: Path) -> None:
    provider = local(tmp_path)
    async with provider:
        provider.log_dir = tmp_path / "not" / "there"
        with pytest.raises(StartupFailed):
            await provider.start()
        assert provider.alive() == ()


async def test_an_executor_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    async with local(tmp_path, STUBBORN, grace=0.2) as provider:
        stubborn = await provider.start()
        pid = pid_of(provider, stubborn)
        log = provider.log_dir / f"{stubborn}.log"
        await asyncio.to_thread(wait_until, lambda: "ready" in log.read_text())
        await provider.stop(stubborn)
        assert not is_alive(pid)


async def test_no_process_is_left_when_the_provider_closes(tmp_path: Path) -> None:
    async with local(tmp_path) as provider:
        pids = [pid_of(provider, await provider.start()) for _ in range(LIMIT)]
    assert not any(is_alive(pid) for pid in pids)
    with pytest.raises(Conflict):
        await provider.start()


async def test_no_process_is_left_when_the_process_of_the_provider_is_killed(
    tmp_path: Path,
) -> None:
    program = textwrap.dedent(
        """
        import asyncio, random, sys
        from pathlib import Path
        from stoker.core.graph import ResourceProfile
        from stoker.core.ids import Ids
        from stoker.resourcemanager.local_processes import LocalProcessProvider
        from stoker.resourcemanager.provider import ExecutorOffer

        async def main():
            provider = LocalProcessProvider(
                command=lambda _: [sys.executable, "-c", "import time; time.sleep(600)"],
                limit=1,
                offer=ExecutorOffer(slots=1, profile=ResourceProfile()),
                log_dir=Path(sys.argv[1]),
                ids=Ids(random.Random(1)),
            )
            async with provider:
                started = await provider.start()
                print(provider._children[started].process.pid, flush=True)
                await asyncio.sleep(600)

        asyncio.run(main())
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as master:
        assert master.stdout is not None
        pid = int(await asyncio.to_thread(master.stdout.readline))
        assert is_alive(pid)
        master.kill()
    wait_until(lambda: not is_alive(pid))
