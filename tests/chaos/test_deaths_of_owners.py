"""A process dies while it starts or stops other processes.

Invariant under attack (invariant 6): no process outlives its owner. The processes are real, since
only the kernel can end the child processes of a dead process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders import wait_until
from chaos.real_cluster import LONG
from stoker.core.failpoints import (
    DRIVER_FAILPOINTS,
    ENGINE_FAILPOINTS,
    ENVIRONMENT_VARIABLE,
    KILLED,
    PROVIDER_FAILPOINTS,
)
from stoker.osproc.process_tree import environment_of

TIMEOUT_SECONDS = 60.0
TESTS = Path(__file__).parents[1]

PROVIDER = """
import asyncio, random, sys
from pathlib import Path
from stoker.core.graph import ResourceProfile
from stoker.core.ids import Ids
from stoker.resourcemanager.local_processes import LocalProcessProvider
from stoker.resourcemanager.provider import ExecutorOffer

async def main():
    folder = Path(sys.argv[1])
    provider = LocalProcessProvider(
        command=lambda _: [sys.executable, "-c", "import time; time.sleep(600)", str(folder)],
        limit=1,
        offer=ExecutorOffer(slots=1, profile=ResourceProfile()),
        log_dir=folder,
        ids=Ids(random.Random(1)),
    )
    async with provider:
        await provider.stop(await provider.start())

asyncio.run(main())
"""

DRIVER = """
import asyncio, os, sys
from pathlib import Path
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.classic.driver_client import DriverSetup, start_driver
from stoker.engine.java import bundled_java_home, find_java
from stoker.engine.options import EngineOptions

async def main():
    folder = Path(sys.argv[1])
    setup = DriverSetup(
        options=EngineOptions(),
        classic=ClassicOptions(),
        java=await find_java(os.environ, folder / "java", bundled_home=bundled_java_home()),
        work=folder / "work",
        logs=folder,
    )
    driver = await start_driver(setup, "one", warm=False)
    driver.ask_to_end()
    await driver.exited

asyncio.run(main())
"""

ENGINE = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from builders import eventually
from integration.engine.processes import is_writing
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, Sink, Source, Sql
from stoker.core.ids import AttemptId, JobId
from stoker.core.regions import regions_of
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.contract import Progressed, Task
from stoker.engine.options import EngineOptions
from stoker.osproc.process_tree import children_of

def task(folder, name, *vertices):
    graph = JobGraph(job_id=JobId("0" * 32), name=name, vertices=vertices)
    directory = folder / name
    directory.mkdir()
    return Task(
        graph=graph,
        region=regions_of(graph)[-1],
        attempt=AttemptId(name),
        attempt_number=0,
        directory=directory,
        materialized_root=(folder / "materialized").as_uri(),
        checkpoint_root=(folder / "checkpoints").as_uri(),
    )

def runner_in(engine, directory):
    for pid in children_of(int(engine.description["zygote-pid"])):
        if os.readlink(f"/proc/{pid}/cwd") == str(directory):
            return pid
    raise LookupError(directory)

async def main():
    folder = Path(sys.argv[1])
    options = EngineOptions(recycle_after_tasks=1, warm_runners=1)
    async with ConnectEngine.open(options, folder / "work", folder) as engine:
        running = asyncio.Event()
        stream = await engine.launch(
            task(
                folder,
                "stream",
                Source(name="rate", read=FormatRead(format="rate"), streaming=True),
                Sink(
                    name="out",
                    input="rate",
                    write=FormatWrite(format="noop"),
                    trigger="1 second",
                ),
            ),
            lambda event: running.set() if isinstance(event, Progressed) else None,
        )
        await running.wait()
        running.clear()
        os.kill(runner_in(engine, folder / "stream"), signal.SIGKILL)
        await running.wait()
        await stream.cancel()
        # The server is replaced now, since it runs only one task (recycle_after_tasks).
        uninterruptible = await engine.launch(
            task(
                folder,
                "uninterruptible",
                Source(name="many", read=Sql(query="SELECT * FROM range(1000000000000000)")),
                Sink(name="out", input="many", write=FormatWrite(format="noop")),
            ),
            lambda event: None,
        )
        await eventually(lambda: is_writing(uninterruptible.server.ui))
        await uninterruptible.cancel()
        await asyncio.sleep(600)

asyncio.run(main())
"""

TESTED_DRIVER_FAILPOINTS = sorted(name for name in DRIVER_FAILPOINTS if name.startswith("driver."))
TESTED_ENGINE_FAILPOINTS = sorted(ENGINE_FAILPOINTS) if LONG else ["takeover.after-attaching"]


def crash_at_failpoint(
    failpoint: str, program: str, folder: Path, timeout: float = TIMEOUT_SECONDS
) -> None:
    owner = subprocess.run(
        [sys.executable, "-c", program, str(folder), str(TESTS)],
        env={**os.environ, ENVIRONMENT_VARIABLE: failpoint},
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert owner.returncode == KILLED, owner.stderr
    wait_until(lambda: not processes_using(folder), "no process is left", TIMEOUT_SECONDS)


def processes_using(folder: Path) -> list[int]:
    """Processes with the folder in their command line or in their environment."""
    mark = str(folder).encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            content = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if mark in content and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


@pytest.mark.parametrize("failpoint", sorted(PROVIDER_FAILPOINTS))
def test_no_task_executor_outlives_a_master_that_dies_while_starting_or_stopping_it(
    tmp_path: Path, failpoint: str
) -> None:
    """A task executor on demand belongs to its master (design invariant 6, RM-18)."""
    crash_at_failpoint(failpoint, PROVIDER, tmp_path)


@pytest.mark.parametrize("failpoint", TESTED_DRIVER_FAILPOINTS)
def test_no_driver_outlives_a_task_executor_that_dies_while_starting_or_ending_it(
    tmp_path: Path, failpoint: str
) -> None:
    """A driver with its JVM is a process of its task executor (design invariant 6)."""
    crash_at_failpoint(failpoint, DRIVER, tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("failpoint", TESTED_ENGINE_FAILPOINTS)
def test_no_server_or_runner_outlives_a_task_executor_that_dies_while_starting_or_ending_one(
    tmp_path: Path, failpoint: str
) -> None:
    """A stream is taken over and a server replaced in its life (design invariant 6)."""
    crash_at_failpoint(failpoint, ENGINE, tmp_path, timeout=240)


def test_the_search_finds_a_leftover_process(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "600"], env={"FOLDER": str(tmp_path)}) as left:
        try:
            # The environment of a process is empty until its program has started.
            wait_until(lambda: environment_of(left.pid) != b"", "the process has started")
            assert processes_using(tmp_path) == [left.pid]
        finally:
            left.kill()
