"""Time from the start of a program until it has counted ten rows: warm driver and spark-submit.

The program writes the time at which it has counted into a file. It is started directly in the
engine, because the benchmark `small-job` measures the way from the submission to the engine.
"""

import asyncio
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from bench.measure import Sample, Verdict, rounds
from stoker.core.graph import Artifact, ArtifactKind, JobGraph, Program
from stoker.core.ids import AttemptId, Ids
from stoker.core.regions import regions_of
from stoker.core.states import ExecutionState
from stoker.engine.classic.engine import ClassicEngine
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.contract import Task
from stoker.engine.options import EngineOptions
from stoker.engine.server_config import spark_home

ROUNDS = rounds(5)
AIM = 20.0
SCRIPT = """
import sys, time
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("ten-rows").getOrCreate()
assert spark.range(10).count() == 10
open(sys.argv[1], "w").write(str(time.time()))
spark.stop()
"""


def run() -> list[Verdict]:
    return asyncio.run(_run())


async def _run() -> list[Verdict]:
    spark_submit: list[float] = []
    ours: list[float] = []
    # The delay keeps the engine from starting a spare driver during a measurement.
    classic = ClassicOptions(warm_drivers=1, replenish_delay=timedelta(seconds=30))
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        script = root / "job.py"
        script.write_text(SCRIPT)
        async with ClassicEngine.open(
            EngineOptions(), classic, root / "work", root / "logs"
        ) as engine:
            for number in range(ROUNDS):
                await engine.wait_until_ready()
                ours.append(await _in_warm_driver(engine, script, root / f"ours-{number}"))
                spark_submit.append(
                    await asyncio.to_thread(_with_spark_submit, script, root / f"bare-{number}")
                )
    reference = Sample("spark-submit", tuple(spark_submit))
    sample = Sample("warm classic driver", tuple(ours))
    print(f"{reference}\n{sample}")
    ratio = reference.median / sample.median
    return [Verdict("start of a program, times faster", ratio, AIM, "times", at_least=True)]


async def _in_warm_driver(engine: ClassicEngine, script: Path, stamp: Path) -> float:
    task = _task(script, stamp)
    begin = time.time()
    outcome = await (await engine.launch(task, lambda _event: None)).outcome()
    assert outcome.state is ExecutionState.FINISHED, outcome.failure
    return _milliseconds_until(stamp, begin)


def _task(script: Path, stamp: Path) -> Task:
    ids = Ids()
    artifact = Artifact(
        name=script.name,
        kind=ArtifactKind.FILE,
        sha256=hashlib.sha256(script.read_bytes()).hexdigest(),
        size=script.stat().st_size,
    )
    program = Program(name="program", script=script.name, arguments=(str(stamp),))
    graph = JobGraph(job_id=ids.job(), name="job", vertices=(program,), artifacts=(artifact,))
    work = stamp.with_suffix(".work")
    work.mkdir()
    return Task(
        graph=graph,
        region=regions_of(graph)[0],
        attempt=AttemptId(ids.nonce()),
        attempt_number=0,
        directory=work,
        materialized_root="",
        checkpoint_root="",
        artifacts={script.name: script},
    )


def _with_spark_submit(script: Path, stamp: Path) -> float:
    command = [str(spark_home() / "bin" / "spark-submit"), str(script), str(stamp)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    begin = time.time()
    subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)
    return _milliseconds_until(stamp, begin)


def _milliseconds_until(stamp: Path, begin: float) -> float:
    return (float(stamp.read_text()) - begin) * 1000
