"""Tasks that are cancelled or killed, or whose runner, zygote, Spark server or owner dies."""

# Functions that are sent to a runner contain their own imports; processes are polled.
# ruff: noqa: PLC0415, ASYNC110

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builders import build_graph, eventually
from integration.engine.bench import TEN_ROWS, TO_NOWHERE, Bench, LaunchedTask, python_job
from integration.engine.processes import PATIENCE, cancel_within_ten_seconds, is_gone
from stoker.core.graph import FormatRead, FormatWrite, Sink, Source
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.contract import EngineState

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def cancel_twice(launched: LaunchedTask) -> None:
    """The second cancel changes nothing and returns."""
    await cancel_within_ten_seconds(launched)
    await launched.running.cancel()


async def test_a_sleeping_function_is_cancelled_and_cleans_up(bench: Bench, tmp_path: Path) -> None:
    marker = tmp_path / "cleaned-up"

    def sleepy(spark):
        import time

        print("asleep", flush=True)
        try:
            time.sleep(600)
        finally:
            marker.touch()

    launched = await bench.launch(python_job(sleepy))
    log = launched.directory / "stdout.log"
    await eventually(lambda: log.exists() and "asleep" in log.read_text(), seconds=PATIENCE)
    await cancel_twice(launched)
    assert marker.exists()


async def test_a_function_that_ignores_its_cancellation_is_killed_with_its_subprocesses(
    bench: Bench, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"

    def stubborn(spark):
        import subprocess
        import time

        child = subprocess.Popen(["sleep", "600"])
        pid_file.write_text(str(child.pid))
        while True:
            try:
                time.sleep(600)
            except BaseException:
                print("no")

    launched = await bench.launch(python_job(stubborn))
    await eventually(lambda: pid_file.exists() and pid_file.read_text() != "", seconds=PATIENCE)
    await cancel_twice(launched)
    assert is_gone(int(pid_file.read_text()))


async def test_a_long_stage_is_cancelled_and_leaves_no_work_at_the_server(
    bench: Bench, tmp_path: Path
) -> None:
    beats = tmp_path / "beats"

    def slow(spark):
        from pyspark.sql.functions import udf

        @udf("long")
        def slowly(value):
            import time

            while True:
                with beats.open("a") as file:
                    file.write(".")
                time.sleep(0.1)

        return spark.range(4).select(slowly("id"))

    launched = await bench.launch(python_job(slow))
    await eventually(beats.exists, seconds=PATIENCE)
    await cancel_twice(launched)
    before = beats.stat().st_size
    await asyncio.sleep(1)
    assert beats.stat().st_size == before


async def test_an_endless_stream_is_cancelled_and_stops_at_the_server(
    bench: Bench, tmp_path: Path
) -> None:
    rate = FormatRead(format="rate", options={"rowsPerSecond": "10"})
    sink = Sink(
        name="out",
        input="rate",
        write=FormatWrite(format="json", path=str(tmp_path / "out")),
        trigger="200 milliseconds",
    )
    launched = await bench.launch(build_graph(Source(name="rate", read=rate, streaming=True), sink))
    commits = tmp_path / "checkpoints" / "out" / "commits"
    await eventually(
        lambda: commits.exists() and len(list(commits.iterdir())) > 3, seconds=PATIENCE
    )
    await eventually(lambda: launched.last_progress.batch_id is not None, seconds=PATIENCE)
    await cancel_twice(launched)
    before = sorted(commits.iterdir())
    await asyncio.sleep(1)
    assert sorted(commits.iterdir()) == before


async def test_a_runner_that_ends_itself_fails_its_task_with_the_exit_code(bench: Bench) -> None:
    def abrupt(spark):
        import os

        os._exit(3)

    outcome = await bench.run(python_job(abrupt))
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert outcome.failure.error == "RunnerDied"
    assert "exit code 3" in outcome.failure.message


async def test_the_stream_of_a_dead_runner_is_stopped_at_the_server(
    bench: Bench, tmp_path: Path
) -> None:
    checkpoint, target = str(tmp_path / "checkpoint"), str(tmp_path / "out")

    def abandoned(spark):
        import os
        import time

        stream = spark.readStream.format("rate").load().writeStream
        stream.option("checkpointLocation", checkpoint).format("json").start(target)
        commits = checkpoint + "/commits"
        while not (os.path.exists(commits) and os.listdir(commits)):
            time.sleep(0.05)
        os.kill(os.getpid(), 9)

    outcome = await bench.run(python_job(abandoned))
    assert outcome.failure is not None
    assert "SIGKILL" in outcome.failure.message
    before = sorted((tmp_path / "checkpoint" / "commits").iterdir())
    await asyncio.sleep(1)
    assert sorted((tmp_path / "checkpoint" / "commits").iterdir()) == before


async def test_the_death_of_the_zygote_fails_its_tasks_and_another_is_started(
    bench: Bench, engine: ConnectEngine
) -> None:
    def sleepy(spark):
        import time

        time.sleep(600)

    launched = await bench.launch(python_job(sleepy))
    await eventually(lambda: "INITIALIZING" in launched.states, seconds=PATIENCE)
    os.kill(int(engine.description["zygote-pid"]), signal.SIGKILL)
    outcome = await launched.running.outcome()
    assert outcome.failure is not None
    assert "its parent process ended (killed by SIGKILL)" in outcome.failure.message
    assert (await bench.run(build_graph(TEN_ROWS, TO_NOWHERE))).failure is None


async def test_the_death_of_the_server_fails_its_tasks_and_the_engine_recovers(
    bench: Bench, engine: ConnectEngine
) -> None:
    def sleepy(spark):
        import time

        while True:
            spark.range(1).count()
            time.sleep(0.01)

    launched = await bench.launch(python_job(sleepy))
    await eventually(lambda: "INITIALIZING" in launched.states, seconds=PATIENCE)
    os.kill(int(engine.description["server-pid"]), signal.SIGKILL)
    async with asyncio.timeout(5):
        outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert outcome.failure.error == "SparkServerDied"
    assert "killed by SIGKILL" in outcome.failure.message
    assert outcome.failure.retriable
    assert engine.state is EngineState.RESTARTING
    assert (await bench.run(build_graph(TEN_ROWS, TO_NOWHERE))).failure is None
    assert engine.state is EngineState.READY


OWNER = """
import asyncio, sys
from pathlib import Path
from stoker.engine.connect.engine import ConnectEngine
from stoker.engine.options import EngineOptions

async def main(root):
    async with ConnectEngine.open(EngineOptions(), root / "work", root / "logs") as engine:
        while engine.description["server-pid"] == "" or engine.description["zygote-pid"] == "":
            await asyncio.sleep(0.05)
        print(engine.description["server-pid"], engine.description["zygote-pid"], flush=True)
        await asyncio.sleep(600)

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_the_server_and_runners_die_when_their_owner_is_killed(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(tmp_path), stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            pids = [int(pid) for pid in (await owner.stdout.readline()).split()]
            zygote = pids[1]
            children = Path(f"/proc/{zygote}/task/{zygote}/children")
            while not children.read_text().split():
                await asyncio.sleep(0.05)
            pids += [int(pid) for pid in children.read_text().split()]
    finally:
        owner.kill()
        await owner.wait()
    assert len(pids) >= 3
    await eventually(lambda: all(is_gone(pid) for pid in pids), seconds=PATIENCE)
