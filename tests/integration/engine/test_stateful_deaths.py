"""Processes of a stateful stream die at random; its output equals that of an undisturbed run.

Runs for minutes, only with TEST_SAVEPOINTS=long. TEST_DEATHS_SEED replays a run.
"""

import os
import random
import signal
from pathlib import Path

import pytest

from builders import eventually
from integration.engine.bench import Bench, LaunchedTask
from integration.engine.processes import runner_of
from integration.engine.stateful_queries import LONG, QUERIES, graph_of_query, rows_in, write_input
from stoker.core.graph import JobGraph
from stoker.core.states import ExecutionState
from stoker.engine.connect.engine import ConnectEngine

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not LONG, reason="minutes on a busy machine: TEST_SAVEPOINTS=long"),
]
FILES = 10
DEATHS = 3
PATIENCE = 400


class Stream:
    """One query, with a new attempt after each failure."""

    def __init__(self, bench: Bench, graph: JobGraph) -> None:
        self.bench = bench
        self.graph = graph
        self.attempts = 0
        self._launched: LaunchedTask | None = None

    @property
    def committed(self) -> int:
        folder = self.bench.root / "checkpoints" / "out" / "commits"
        return max((int(path.name) for path in folder.glob("[0-9]*")), default=-1)

    @property
    def _is_over(self) -> bool:
        return self._launched is not None and self._launched.running.completion.done()

    async def running(self) -> LaunchedTask:
        """The running attempt; starts one if there is none or the last one has failed."""
        if self._launched is None or self._is_over:
            await self.bench.engine.wait_until_ready()
            self._launched = await self.bench.launch(self.graph)
            self.attempts += 1
        return self._launched

    async def until_batch(self, number: int) -> None:
        while self.committed < number:
            await self.running()
            await eventually(lambda: self.committed >= number or self._is_over, seconds=PATIENCE)


def kill_runner(engine: ConnectEngine, launched: LaunchedTask) -> None:
    try:
        os.kill(runner_of(engine, launched), signal.SIGKILL)
    except LookupError:
        # The previous runner has just been killed, and the next one is not there yet.
        return


def kill_server(engine: ConnectEngine, _launched: LaunchedTask) -> None:
    os.kill(int(engine.description["server-pid"]), signal.SIGKILL)


@pytest.mark.parametrize("name", ["distinct", "joined"])
async def test_a_stream_whose_processes_die_writes_the_same_as_an_undisturbed_one(
    bench: Bench, engine: ConnectEngine, tmp_path: Path, name: str
) -> None:
    """After each death the query continues from its last committed batch (CKPT-14)."""
    assert name in QUERIES
    seed = int(os.environ.get("TEST_DEATHS_SEED", "1"))
    print(f"TEST_DEATHS_SEED={seed}")
    chance = random.Random(seed)
    inputs = tmp_path / "in"
    write_input(inputs, range(FILES))
    whole = await Bench(engine, make_folder(tmp_path / "quiet")).run(
        graph_of_query(name, inputs, tmp_path / "whole", "available-now")
    )
    assert whole.state is ExecutionState.FINISHED, whole.failure
    expected = rows_in(tmp_path / "whole")
    assert expected

    stream = Stream(bench, graph_of_query(name, inputs, tmp_path / "out"))
    kills = [kill_runner, kill_server]
    for number in range(DEATHS):
        await stream.until_batch(min(FILES - 1, stream.committed + chance.randint(1, 2)))
        # Each kind of process dies at least once.
        kill = kills[number] if number < len(kills) else chance.choice(kills)
        kill(engine, await stream.running())
    await stream.until_batch(FILES - 1)
    await (await stream.running()).running.cancel()
    assert stream.attempts > 1
    await bench.engine.wait_until_ready()
    last = await bench.run(graph_of_query(name, inputs, tmp_path / "out", "available-now"))
    assert last.state is ExecutionState.FINISHED, last.failure
    assert rows_in(tmp_path / "out") == expected


def make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder
