"""Programs and pipelines in drivers of their own, with real JVMs.

Every test starts a JVM, so most tests run only with TEST_CLASSIC=long.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from builders import eventually
from stoker.core.graph import (
    Artifact,
    ArtifactKind,
    EngineKind,
    FormatRead,
    FormatWrite,
    JobGraph,
    Program,
    Sink,
    Source,
    Sql,
)
from stoker.core.ids import AttemptId, Ids, JobId
from stoker.core.options import ByteSize
from stoker.core.regions import regions_of
from stoker.core.spark_paths import describe_directory
from stoker.core.states import ExecutionState
from stoker.engine.classic.engine import ClassicEngine
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.classic.task import ClassicTask
from stoker.engine.contract import StateChanged, Task, TaskEvent
from stoker.engine.options import EngineOptions
from stoker.osproc.process_tree import descendants_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
long = pytest.mark.skipif(
    os.environ.get("TEST_CLASSIC") != "long", reason="needs TEST_CLASSIC=long"
)
OPTIONS = EngineOptions(
    cancellation_grace=timedelta(seconds=2),
    start_timeout=timedelta(minutes=5),
    runner_log_size=ByteSize(1_000_000),
    runner_memory=ByteSize(400 * 1024**2),
)
CANCEL_SECONDS = 10.0
"""Seconds within which the product promises to end a cancelled task."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ClassicEngine]:
    root = tmp_path_factory.mktemp("classic")
    options = ClassicOptions(warm_drivers=1, replenish_delay=timedelta(0))
    async with ClassicEngine.open(OPTIONS, options, root / "work", root / "logs") as opened:
        yield opened
    # Only processes of this engine: the one that other tests share may still run.
    assert [pid for pid in descendants_of(os.getpid()) if _mentions(pid, str(root))] == []


def _mentions(pid: int, text: str) -> bool:
    process = Path(f"/proc/{pid}")
    try:
        said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        return text.encode() in said or str((process / "cwd").readlink()).startswith(text)
    except OSError:
        return False


class LaunchedTask:
    def __init__(self, running: ClassicTask, directory: Path, events: list[TaskEvent]) -> None:
        self.running = running
        self.directory = directory
        self.events = events

    def log(self, stream: str) -> str:
        path = self.directory / f"{stream}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` is true; fail at once if the task ends before."""

        def is_true() -> bool:
            if condition():
                return True
            assert not self.running.completion.done(), self.log("stderr")
            return False

        await eventually(is_true, seconds=300)


@pytest.fixture
def launch(engine: ClassicEngine, tmp_path: Path) -> Any:
    async def start(source: str, *files: Path, **more: Any) -> LaunchedTask:
        script = tmp_path / "job.py"
        script.write_text(source)
        artifacts = tuple(_artifact(path) for path in (script, *files))
        fields = {key: more.pop(key) for key in list(more) if key in ("arguments", "environment")}
        graph = JobGraph(
            job_id=JobId("0" * 32),
            name="job",
            vertices=(Program(name="program", script="job.py", **fields),),
            artifacts=artifacts,
            **more,
        )
        return await _launched(engine, graph, tmp_path, _kept(tmp_path, (script, *files)))

    return start


def _kept(root: Path, files: Sequence[Path]) -> dict[str, Path]:
    """Copy the files to where a task executor keeps them: under the checksum of their content."""
    kept = {}
    for path in files:
        kept[path.name] = root / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
        kept[path.name].parent.mkdir(exist_ok=True)
        shutil.copyfile(path, kept[path.name])
    return kept


def _artifact(path: Path) -> Artifact:
    content = path.read_bytes()
    kind = ArtifactKind.PYTHON if path.name.startswith("module") else ArtifactKind.FILE
    digest = hashlib.sha256(content).hexdigest()
    return Artifact(name=path.name, kind=kind, sha256=digest, size=len(content))


async def _launched(
    engine: ClassicEngine, graph: JobGraph, root: Path, artifacts: dict[str, Path]
) -> LaunchedTask:
    attempt = AttemptId(Ids().nonce())
    directory = root / attempt
    directory.mkdir()
    events: list[TaskEvent] = []
    task = Task(
        graph=graph,
        region=regions_of(graph)[0],
        attempt=attempt,
        attempt_number=0,
        directory=directory,
        materialized_root=str(root / "materialized"),
        checkpoint_root=str(root / "checkpoints"),
        artifacts=artifacts,
    )
    return LaunchedTask(await engine.launch(task, events.append), directory, events)


ORDINARY = """
import os, sys, module_of_mine
from pyspark import SparkFiles
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.appName("mine").getOrCreate()
print("arguments", sys.argv[1:], os.environ["DAY"], spark.sparkContext.appName)
numbers = spark.sparkContext.parallelize([1, 2, 3])
print("rdd", numbers.map(lambda n: module_of_mine.twice(n)).sum())
day = udf(lambda n: os.environ["DAY"])
print("udf", spark.range(3).select(day("id").alias("day")).collect()[0].day)
print("file", open(SparkFiles.get("data.txt")).read())
print("partitions", spark.conf.get("spark.sql.shuffle.partitions"))
spark.range(3).write.csv("relative")
print("written", os.path.exists("relative/_SUCCESS"))
spark.stop()
small = SparkSession.builder.master("local[1]").config("spark.executor.memory", "600m")
again = small.getOrCreate()
print("again", again.sparkContext.master, again.range(7).count())
sys.exit(7)
"""


async def test_an_unmodified_script_runs_as_under_spark_submit(launch: Any, tmp_path: Path) -> None:
    (tmp_path / "module_of_mine.py").write_text("def twice(n):\n    return 2 * n\n")
    (tmp_path / "data.txt").write_text("hello")
    launched = await launch(
        ORDINARY,
        tmp_path / "module_of_mine.py",
        tmp_path / "data.txt",
        arguments=("a", "b c"),
        environment={"DAY": "monday"},
        configuration={"spark.sql.shuffle.partitions": "3"},
        caller=describe_directory(tmp_path),
    )
    outcome = await launched.running.outcome()
    assert launched.log("stdout").splitlines() == [
        "arguments ['a', 'b c'] monday mine",
        "rdd 12",
        "udf monday",
        "file hello",
        "partitions 3",
        "written True",
        "again local[1] 7",
    ], launched.log("stderr")
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert outcome.failure.message == "the program ended with exit code 7"
    assert outcome.failure.labels == {"exit-code": "7"}
    states = [event.state for event in launched.events if isinstance(event, StateChanged)]
    assert states[-1] is ExecutionState.RUNNING


STUBBORN = """
import signal, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

signal.signal(signal.SIGTERM, signal.SIG_IGN)
SparkSession.builder.getOrCreate().stop()
spark = SparkSession.builder.master("local[4]").getOrCreate()
marks = Path(sys.argv[1])

@udf("long")
def for_an_hour(value):
    (marks / "udf").touch()
    time.sleep(3600)

def batch(rows, number):
    (marks / "batch").touch()
    time.sleep(3600)

def asleep():
    (marks / "sleep").touch()
    time.sleep(3600)

sums = spark.range(10**13, numPartitions=1).selectExpr("sum(id * id)")
slow = spark.range(1, numPartitions=1).select(for_an_hour("id"))
for work in (sums.collect, slow.collect, asleep):
    threading.Thread(target=work).start()
rates = spark.readStream.format("rate").load()
rates.writeStream.foreachBatch(batch).option("checkpointLocation", str(marks / "place")).start()
while True:
    pass
"""


async def test_cancel_ends_a_program_that_ignores_sigterm_and_all_of_its_work(
    launch: Any, tmp_path: Path
) -> None:
    """The program runs a tight loop, a stage, a UDF, a foreachBatch function and a sleep."""
    launched = await launch(STUBBORN, arguments=(str(tmp_path),))
    marks = [tmp_path / name for name in ("udf", "batch", "sleep")]
    await launched.until(lambda: all(mark.exists() for mark in marks))
    driver = launched.running._driver
    assert driver is not None
    processes = descendants_of(driver.pid)
    assert len(processes) >= 3, "Python, its JVM, and a Python worker"
    async with asyncio.timeout(CANCEL_SECONDS):
        await launched.running.cancel()
    assert (await launched.running.outcome()).state is ExecutionState.CANCELED
    assert not any(Path(f"/proc/{pid}").exists() for pid in (driver.pid, *processes))


async def test_a_pipeline_with_static_settings_runs_in_a_driver_of_its_own(
    engine: ClassicEngine, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    graph = JobGraph(
        job_id=JobId("0" * 32),
        name="job",
        vertices=(
            Source(name="numbers", read=Sql(query="SELECT id FROM range(10)")),
            Sink(name="out", input="numbers", write=FormatWrite(format="parquet", path=str(out))),
        ),
        configuration={"spark.executor.memory": "600m", "spark.sql.ansi.enabled": "true"},
        engine=EngineKind.CLASSIC,
    )
    launched = await _launched(engine, graph, tmp_path, {})
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FINISHED, launched.log("stderr")
    assert list(out.glob("*.parquet"))


@long
async def test_a_streaming_pipeline_runs_in_a_driver_of_its_own_and_reports_its_batches(
    engine: ClassicEngine, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"word": "ash"}\n')
    read = FormatRead(format="json", path=str(tmp_path / "in"), schema="word STRING")
    write = FormatWrite(format="parquet", path=str(tmp_path / "out"))
    graph = JobGraph(
        job_id=JobId("0" * 32),
        name="job",
        vertices=(
            Source(name="words", read=read, streaming=True),
            Sink(name="out", input="words", write=write, trigger="available-now"),
        ),
        engine=EngineKind.CLASSIC,
    )
    launched = await _launched(engine, graph, tmp_path, {})
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FINISHED, launched.log("stderr")
    assert (outcome.progress.batch_id, outcome.progress.rows_read) == (0, 1)
    assert list((tmp_path / "out").glob("*.parquet"))


BAD = [
    ("def f():\n    raise ValueError('boo')\nf()", "ValueError", "boo"),
    ("import os; os._exit(3)", "ProgramFailed", "exit code 3"),
    ("import sys; sys.exit('no data')", "ProgramFailed", "exit code 1: no data"),
    ("import ctypes; ctypes.string_at(0)", "ProgramCrashed", "SIGSEGV"),
    ("x = []\nwhile True: x.append(bytearray(10**7))", "OutOfMemory", "runner.memory"),
    (
        "from pyspark.sql import SparkSession\n"
        "from pyspark.sql.functions import udf\n"
        "@udf('long')\n"
        "def hoard(x):\n"
        "    held = []\n"
        "    while True: held.append(b'x' * 10**7)\n"
        "SparkSession.builder.getOrCreate().range(2).select(hoard('id')).collect()",
        "OutOfMemory",
        "in which Spark ran the task's functions took",
    ),
    ("import os, shutil; shutil.rmtree(os.getcwd()); 1 / 0", "ZeroDivisionError", "division"),
    (
        "from pyspark.sql import SparkSession\n"
        "SparkSession.builder.master('nonsense://x').getOrCreate()",
        "Py4JJavaError",
        "Could not parse Master URL",
    ),
]


@long
@pytest.mark.parametrize(("source", "error", "words"), BAD)
async def test_a_bad_program_fails_with_its_cause_and_its_log(
    launch: Any, source: str, error: str, words: str
) -> None:
    launched = await launch("print('begun', flush=True)\n" + source)
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert outcome.failure.error == error, outcome.failure
    assert words in outcome.failure.message
    assert launched.log("stdout") == "begun\n"


@long
@pytest.mark.timeout(400)
async def test_an_absent_spark_master_that_only_the_program_names_is_reported(
    launch: Any,
) -> None:
    """Spark gives up after a minute, and its exception does not give the reason."""
    launched = await launch(
        "from pyspark.sql import SparkSession\n"
        "SparkSession.builder.getOrCreate().stop()\n"
        "SparkSession.builder.master('spark://127.0.0.1:1').getOrCreate().range(3).count()\n"
    )
    outcome = await launched.running.outcome()
    assert outcome.failure is not None
    assert outcome.failure.error == "SparkMasterAbsent", outcome.failure
    assert "no Spark master answers at the address that the program uses" in outcome.failure.message
    assert "All masters are unresponsive" in launched.log("stderr")


VERSIONS = """
import sys, time
from pathlib import Path
import module_of_trees
from pyspark.sql import SparkSession

meeting = Path(sys.argv[1])

def in_a_worker(number):
    import module_of_trees
    # Both jobs are in their workers at the same time.
    (meeting / module_of_trees.VERSION).touch()
    deadline = time.monotonic() + 200
    while len(list(meeting.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    return module_of_trees.VERSION

spark = SparkSession.builder.getOrCreate()
seen = spark.sparkContext.parallelize([1], 1).map(in_a_worker).collect()
print(module_of_trees.VERSION, *seen, len(list(meeting.iterdir())))
"""


@long
async def test_two_programs_with_two_versions_of_one_module_each_see_their_own(
    launch: Any, tmp_path: Path
) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    running = []
    for version in ("one", "two"):
        module = tmp_path / version / "module_of_trees.py"
        module.parent.mkdir()
        module.write_text(f"VERSION = '{version}'\n")
        running.append(await launch(VERSIONS, module, arguments=(str(meeting),)))
    for launched, version in zip(running, ("one", "two"), strict=True):
        outcome = await launched.running.outcome()
        assert outcome.state is ExecutionState.FINISHED, launched.log("stderr")
        assert launched.log("stdout") == f"{version} {version} 2\n"


@long
async def test_a_gigabyte_of_output_is_truncated_and_the_program_continues(launch: Any) -> None:
    source = "line = 'x' * 999\nfor _ in range(10**6): print(line)\nprint('the end')\n"
    launched = await launch(source)
    outcome = await launched.running.outcome()
    assert outcome.state is ExecutionState.FINISHED
    log = launched.log("stdout")
    assert len(log) < 1_200_000
    assert "bytes are left out here" in log
    assert log.endswith("the end\n")


@long
async def test_a_lack_of_memory_in_java_is_reported_as_such(launch: Any) -> None:
    source = (
        "from pyspark.sql import SparkSession\n"
        "jvm = SparkSession.builder.getOrCreate()._jvm\n"
        "held = jvm.java.util.ArrayList()\n"
        "while True: held.add(jvm.java.nio.ByteBuffer.allocate(10**8))\n"
    )
    launched = await launch(source)
    outcome = await launched.running.outcome()
    assert outcome.failure is not None
    assert outcome.failure.error == "OutOfMemory", outcome.failure
    assert "spark.driver.memory" in outcome.failure.message
