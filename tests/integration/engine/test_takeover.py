"""A streaming query outlives the process that watches it."""

import os
import signal
from pathlib import Path

import pytest

from builders import build_graph, eventually
from integration.engine.bench import Bench, LaunchedTask
from integration.engine.processes import PATIENCE, cancel_within_ten_seconds, runner_of
from stoker.core.graph import FormatRead, FormatWrite, Sink, Source
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def running_stream(bench: Bench, target: Path) -> LaunchedTask:
    rate = FormatRead(format="rate", options={"rowsPerSecond": "10"})
    sink = Sink(
        name="out",
        input="rate",
        write=FormatWrite(format="json", path=str(target)),
        trigger="200 milliseconds",
    )
    launched = await bench.launch(build_graph(Source(name="rate", read=rate, streaming=True), sink))
    await eventually(
        lambda: launched.has_progressed and launched.last_progress.batches > 1, seconds=PATIENCE
    )
    return launched


async def test_the_stream_of_a_killed_runner_continues_under_the_next_one(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    launched = await running_stream(bench, tmp_path / "out")
    before = launched.last_progress
    killed = runner_of(engine, launched)
    os.kill(killed, signal.SIGKILL)
    await eventually(
        lambda: launched.last_progress.batch_id > before.batch_id + 3, seconds=PATIENCE
    )
    after = launched.last_progress
    assert (after.query_id, after.run_id) == (before.query_id, before.run_id)
    assert after.batches == after.batch_id + 1, "no batch was missed while no runner watched"
    assert after.rows_read >= before.rows_read
    assert launched.states == ["INITIALIZING", "RUNNING"], "the attempt never stopped running"
    assert runner_of(engine, launched) != killed
    await cancel_within_ten_seconds(launched)
    batches = sorted((tmp_path / "checkpoints" / "out" / "commits").iterdir())
    assert batches


async def test_a_stream_survives_the_death_of_the_zygote(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    launched = await running_stream(bench, tmp_path / "out")
    before = launched.last_progress
    os.kill(int(engine.description["zygote-pid"]), signal.SIGKILL)
    await eventually(
        lambda: launched.last_progress.batch_id > before.batch_id + 3, seconds=PATIENCE
    )
    assert launched.last_progress.run_id == before.run_id
    await cancel_within_ten_seconds(launched)


async def test_a_stream_whose_runners_die_again_and_again_fails_in_the_end(
    bench: Bench, engine: ConnectEngine, tmp_path: Path
) -> None:
    launched = await running_stream(bench, tmp_path / "out")
    killed: set[int] = set()
    while not launched.running.completion.done():
        try:
            runner = runner_of(engine, launched)
        except LookupError:
            runner = None
        if runner is not None and runner not in killed:
            killed.add(runner)
            os.kill(runner, signal.SIGKILL)
        await eventually(
            lambda: launched.running.completion.done() or has_runner(engine, launched),
            seconds=PATIENCE,
        )
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert outcome.failure.error == "RunnerDied"
    assert len(killed) == 4


def has_runner(engine: ConnectEngine, launched: LaunchedTask) -> bool:
    try:
        runner_of(engine, launched)
    except LookupError:
        return False
    return True
