"""A task ends by itself when its task executor cannot end it any more.

The tests block the event loop to simulate a frozen task executor, which renews nothing, cancels
nothing and reads nothing. TEST_LEASES=long adds a driver with its own JVM, a Spark server that
hangs, and user code that holds the GIL.
"""

import asyncio
import hashlib
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import build_graph, eventually
from integration.engine.bench import OPTIONS, TEN_ROWS, Bench, LaunchedTask, function
from integration.engine.processes import PATIENCE, cancel_within_ten_seconds, is_gone, runner_of
from stoker.core.graph import (
    Artifact,
    ArtifactKind,
    FormatRead,
    FormatWrite,
    JobGraph,
    Program,
    Sink,
    Source,
)
from stoker.core.states import ExecutionState
from stoker.engine.classic.engine import ClassicEngine
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.lease import Lease
from stoker.osproc.process_tree import descendants_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
long = pytest.mark.skipif(os.environ.get("TEST_LEASES") != "long", reason="needs TEST_LEASES=long")
LEASE_SECONDS = 16.0
MARGIN_SECONDS = 8.0
STUBBORN_PROGRAM = """
import signal, time
from pathlib import Path
from pyspark.sql import SparkSession

signal.signal(signal.SIGTERM, signal.SIG_IGN)
SparkSession.builder.getOrCreate().range(10).count()
Path(__file__).resolve().with_name("began").touch()
time.sleep(600)
"""


def stream(target: Path, name: str = "out") -> JobGraph:
    rate = FormatRead(format="rate", options={"rowsPerSecond": "10"})
    write = FormatWrite(format="json", path=str(target))
    sink = Sink(name=name, input="rate", write=write, trigger="200 milliseconds")
    return build_graph(Source(name="rate", read=rate, streaming=True), sink)


def ignore_cancellation(_frame: Any) -> None:
    """User code that ignores every cancellation."""
    Path("began").touch()
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


def hold_gil(_frame: Any) -> None:
    """Hold the GIL for years, in one call into compiled code."""
    Path("began").touch()
    re.match(r"(a+)+$", "a" * 60 + "b")


@asynccontextmanager
async def launch_with_lease(
    bench: Bench, graph: JobGraph, artifacts: dict[str, Path] | None = None
) -> AsyncIterator[LaunchedTask]:
    """Launch a task; its lease is renewed every second until the block ends or the loop stops."""
    # On a busy machine, only a warm engine starts the task well within its first lease.
    await bench.engine.wait_until_ready()
    loop = asyncio.get_running_loop()
    first = Lease(until=loop.time() + LEASE_SECONDS, margin=MARGIN_SECONDS)
    launched = await bench.launch(graph, artifacts=artifacts, lease=first)

    async def renew() -> None:
        while True:
            launched.running.renew_lease(loop.time() + LEASE_SECONDS)
            await asyncio.sleep(1)

    renewing = asyncio.create_task(renew())
    try:
        yield launched
    finally:
        renewing.cancel()


async def wait_for_batches(launched: LaunchedTask) -> None:
    await eventually(
        lambda: launched.has_progressed and launched.last_progress.batches > 1, seconds=PATIENCE
    )


def block_loop_until_gone(*pids: int, seconds: float) -> float:
    """Block the event loop until the processes are gone; returns the seconds that this took."""
    began = time.monotonic()
    while not all(is_gone(pid) for pid in pids):
        assert time.monotonic() - began < seconds, "a process outlived its lease"
        time.sleep(0.05)
    return time.monotonic() - began


async def test_a_stream_runs_as_long_as_its_lease_is_renewed(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    async with launch_with_lease(bench, stream(tmp_path / "out")) as launched:
        await wait_for_batches(launched)
        runner = runner_of(engine, launched)
        await asyncio.sleep(LEASE_SECONDS - MARGIN_SECONDS + 1)
        before = launched.last_progress
        await eventually(
            lambda: launched.last_progress.batch_id > before.batch_id + 1, seconds=PATIENCE
        )
        assert runner_of(engine, launched) == runner
        await cancel_within_ten_seconds(launched)


async def test_work_ends_before_its_lease_when_the_task_executor_is_frozen(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    stubborn = build_graph(
        TEN_ROWS, Sink(name="out", input="numbers", write=function(ignore_cancellation, "frame"))
    )
    async with (
        launch_with_lease(bench, stream(tmp_path / "out", "stream")) as streaming,
        launch_with_lease(bench, stubborn) as uncancellable,
    ):
        await wait_for_batches(streaming)
        await eventually((uncancellable.directory / "began").exists, seconds=PATIENCE)
        os.kill(runner_of(engine, streaming), signal.SIGKILL)
        killed = streaming.last_progress
        # The runner that takes over the stream also takes over its lease.
        await eventually(
            lambda: streaming.last_progress.batch_id > killed.batch_id + 1, seconds=PATIENCE
        )
        runners = [runner_of(engine, each) for each in (streaming, uncancellable)]
        block_loop_until_gone(*runners, seconds=LEASE_SECONDS)
        commits = tmp_path / "checkpoints" / "stream" / "commits"
        committed = set(commits.iterdir())
        time.sleep(1)
        assert set(commits.iterdir()) == committed, "the query still commits batches"
    for launched in (streaming, uncancellable):
        outcome = await launched.running.outcome()
        assert outcome.state is ExecutionState.CANCELED
        assert outcome.failure is not None
        assert "its lease has expired" in outcome.failure.message


async def test_a_stream_without_a_runner_ends_with_its_lease_when_the_executor_is_frozen(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    """Two faults at once: only the server's watchdog is left to stop the query."""
    async with launch_with_lease(bench, stream(tmp_path / "out")) as launched:
        await wait_for_batches(launched)
        server = int(engine.description["server-pid"])
        os.kill(runner_of(engine, launched), signal.SIGKILL)
        block_loop_until_gone(server, seconds=LEASE_SECONDS + 1)
        commits = tmp_path / "checkpoints" / "out" / "commits"
        committed = set(commits.iterdir())
        time.sleep(1)
        assert set(commits.iterdir()) == committed, "the query still commits batches"
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.CANCELED
    assert outcome.failure is not None
    assert "its lease has expired" in outcome.failure.message
    await engine.wait_until_ready()


@long
async def test_user_code_that_holds_the_gil_is_killed_when_its_lease_expires(
    bench: Bench, engine: ConnectEngine
) -> None:
    graph = build_graph(
        TEN_ROWS, Sink(name="out", input="numbers", write=function(hold_gil, "frame"))
    )
    async with launch_with_lease(bench, graph) as launched:
        await eventually((launched.directory / "began").exists, seconds=PATIENCE)
        runner = runner_of(engine, launched)
        block_loop_until_gone(runner, seconds=LEASE_SECONDS + 1)
    assert (await launched.running.outcome()).state is ExecutionState.CANCELED
    await engine.wait_until_ready()


@long
async def test_a_driver_and_its_jvm_end_before_their_lease_when_the_task_executor_is_frozen(
    tmp_path: Path,
) -> None:
    script = tmp_path / "job.py"
    script.write_text(STUBBORN_PROGRAM)
    content = script.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    kind = ArtifactKind.FILE
    artifact = Artifact(name="job.py", kind=kind, sha256=digest, size=len(content))
    graph = build_graph(Program(name="program", script="job.py"), artifacts=(artifact,))
    options = ClassicOptions(warm_drivers=1, replenish_delay=timedelta(hours=1))
    async with ClassicEngine.open(OPTIONS, options, tmp_path / "work", tmp_path / "logs") as engine:
        bench = Bench(engine, tmp_path)  # type: ignore[arg-type]
        async with launch_with_lease(bench, graph, {"job.py": script}) as launched:
            await eventually((launched.directory / "files" / "began").exists, seconds=PATIENCE)
            # Only this driver's processes: the engine of other tests may start runners meanwhile.
            supervisor = launched.running._driver.pid
            driver = {supervisor, *descendants_of(supervisor)}
            assert len(driver) >= 3, "supervisor, driver, JVM"
            block_loop_until_gone(*driver, seconds=LEASE_SECONDS)
        outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.CANCELED
    assert outcome.failure is not None
    assert "its lease has expired" in outcome.failure.message


@long
async def test_the_spark_server_is_killed_when_its_work_cannot_be_ended_otherwise(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    async with launch_with_lease(bench, stream(tmp_path / "out")) as launched:
        await wait_for_batches(launched)
        server = int(engine.description["server-pid"])
        os.kill(server, signal.SIGSTOP)
        block_loop_until_gone(server, runner_of(engine, launched), seconds=LEASE_SECONDS + 1)
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.CANCELED
    await engine.wait_until_ready()
