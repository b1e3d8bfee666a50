"""A task ends by itself when its task executor cannot end it any more.

A loop that does not run is a task executor that is frozen: it renews nothing, cancels nothing, and
reads nothing. The long form, with STOKER_LEASES=long, has a driver with its own
JVM, a Spark server that hangs, and user code that keeps Python's lock.
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

from builders import build_graph
from integration.engine.bench import OPTIONS, TEN_ROWS, Bench, Launched, function
from integration.engine.processes import cancel_within_ten_seconds, is_gone, runner_of, until
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
long = pytest.mark.skipif(
    os.environ.get("STOKER_LEASES") != "long", reason="needs STOKER_LEASES=long"
)
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


def stay(_frame: Any) -> None:
    """User code that no cancel ends."""
    Path("began").touch()
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


def keep_lock(_frame: Any) -> None:
    """One call into compiled code, which lets no other thread of Python run; for years."""
    Path("began").touch()
    re.match(r"(a+)+$", "a" * 60 + "b")


@asynccontextmanager
async def leased(
    bench: Bench, graph: JobGraph, artifacts: dict[str, Path] | None = None
) -> AsyncIterator[Launched]:
    """Renewed every second inside the block, by the task executor that the test is."""
    # Only a warm one begins well within its first lease, however busy the machine is.
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


async def has_batches(launched: Launched) -> None:
    await until(lambda: launched.has_progressed and launched.last_progress.batches > 1)


def stand_still_until_gone(*pids: int, seconds: float) -> float:
    """Without a turn of the loop; how long it took."""
    began = time.monotonic()
    while not all(is_gone(pid) for pid in pids):
        assert time.monotonic() - began < seconds, "it outlived its lease"
        time.sleep(0.05)
    return time.monotonic() - began


async def test_a_stream_goes_on_for_as_long_as_its_lease_is_renewed(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    async with leased(bench, stream(tmp_path / "out")) as launched:
        await has_batches(launched)
        runner = runner_of(engine, launched)
        await asyncio.sleep(LEASE_SECONDS - MARGIN_SECONDS + 1)
        before = launched.last_progress
        await until(lambda: launched.last_progress.batch_id > before.batch_id + 1)
        assert runner_of(engine, launched) == runner
        await cancel_within_ten_seconds(launched)


async def test_work_is_over_before_its_lease_when_its_task_executor_is_frozen(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    stubborn = build_graph(
        TEN_ROWS, Sink(name="out", input="numbers", write=function(stay, "frame"))
    )
    async with (
        leased(bench, stream(tmp_path / "out", "stream")) as streaming,
        leased(bench, stubborn) as staying,
    ):
        await has_batches(streaming)
        await until((staying.directory / "began").exists)
        os.kill(runner_of(engine, streaming), signal.SIGKILL)
        killed = streaming.last_progress
        # The lease goes along to the runner that takes the stream over.
        await until(lambda: streaming.last_progress.batch_id > killed.batch_id + 1)
        runners = [runner_of(engine, each) for each in (streaming, staying)]
        stand_still_until_gone(*runners, seconds=LEASE_SECONDS)
        commits = tmp_path / "checkpoints" / "stream" / "commits"
        committed = set(commits.iterdir())
        time.sleep(1)
        assert set(commits.iterdir()) == committed, "the query goes on"
    for launched in (streaming, staying):
        outcome = await launched.running.outcome()
        assert outcome.state is ExecutionState.CANCELED
        assert outcome.failure is not None
        assert "its lease has expired" in outcome.failure.message


async def test_a_stream_without_a_runner_is_over_with_its_lease_when_its_executor_is_frozen(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    """Two faults at once: nobody is left who could stop the query, but the server's warden."""
    async with leased(bench, stream(tmp_path / "out")) as launched:
        await has_batches(launched)
        server = int(engine.description["server-pid"])
        os.kill(runner_of(engine, launched), signal.SIGKILL)
        stand_still_until_gone(server, seconds=LEASE_SECONDS + 1)
        commits = tmp_path / "checkpoints" / "out" / "commits"
        committed = set(commits.iterdir())
        time.sleep(1)
        assert set(commits.iterdir()) == committed, "the query goes on"
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.CANCELED
    assert outcome.failure is not None
    assert "its lease has expired" in outcome.failure.message
    await engine.wait_until_ready()


@long
async def test_user_code_that_keeps_pythons_lock_is_killed_when_its_lease_is_over(
    bench: Bench, engine: ConnectEngine
) -> None:
    graph = build_graph(
        TEN_ROWS, Sink(name="out", input="numbers", write=function(keep_lock, "frame"))
    )
    async with leased(bench, graph) as launched:
        await until((launched.directory / "began").exists)
        runner = runner_of(engine, launched)
        stand_still_until_gone(runner, seconds=LEASE_SECONDS + 1)
    assert (await launched.running.outcome()).state is ExecutionState.CANCELED
    await engine.wait_until_ready()


@long
async def test_a_driver_is_gone_with_its_jvm_before_its_lease_when_its_task_executor_is_frozen(
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
        async with leased(bench, graph, {"job.py": script}) as launched:
            await until((launched.directory / "files" / "began").exists)
            # Not all that is new here: the engine of the other tests may make runners meanwhile.
            supervisor = launched.running._driver.pid
            driver = {supervisor, *descendants_of(supervisor)}
            assert len(driver) >= 3, "supervisor, driver, JVM"
            stand_still_until_gone(*driver, seconds=LEASE_SECONDS)
        outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.CANCELED
    assert outcome.failure is not None
    assert "its lease has expired" in outcome.failure.message


@long
async def test_spark_itself_is_killed_when_its_work_cannot_be_ended_otherwise(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    async with leased(bench, stream(tmp_path / "out")) as launched:
        await has_batches(launched)
        server = int(engine.description["server-pid"])
        os.kill(server, signal.SIGSTOP)
        stand_still_until_gone(server, runner_of(engine, launched), seconds=LEASE_SECONDS + 1)
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.CANCELED
    await engine.wait_until_ready()
