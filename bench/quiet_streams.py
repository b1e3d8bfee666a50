"""Processor time of many idle streams, against the same queries in one bare session.

Both run at the same time, and their processor time is measured over the same seconds. The latency
of an idle stream does not matter, but a hundred idle streams must leave the machine to other work.
"""

import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.cluster import running_cluster
from bench.measure import Sample, Verdict, processor_seconds, rounds
from bench.memory import is_zygote
from bench.sessions import bare_session
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids
from stoker.osproc.process_tree import children_of, descendants_of, program_of
from stoker.processes.local.cluster import LocalCluster

STREAMS = int(os.environ.get("BENCH_STREAMS", "20"))
ROUNDS = rounds(5)
SECONDS = 10
SETTLING_SECONDS = 60
"""Until then Java is still compiling the code of the streams."""
TRIGGER = "1 second"
SCHEMA = "key LONG, text STRING"
AIM = 5.0
CONFIGURATION = (
    f"{{rest.bind-port: '0', taskmanager.numberOfTaskSlots: {STREAMS}, runner.warm: 1, "
    "taskmanager.memory.spark-heap: 2 gb}"
)


def quiet_stream(source: str) -> Pipeline:
    pipeline = Pipeline("quiet")
    pipeline.source("rows", format="parquet", path=source, schema=SCHEMA, streaming=True)
    pipeline.sink("rows", name="out", format="noop", trigger=TRIGGER)
    return pipeline


def run() -> list[Verdict]:
    ids = Ids()
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        source = Path(folder) / "in"
        source.mkdir()
        with bare_session() as spark, running_cluster(CONFIGURATION) as cluster:
            client = BlockingClient(cluster.masters)
            for number in range(STREAMS):
                _start_bare(spark, source, Path(folder) / f"checkpoint-{number}")
                client.submit(quiet_stream(str(source)).build(job_id=ids.job()), {})
            while (running := client.overview().jobs_running) < STREAMS:
                time.sleep(1)
            print(f"{running} streams each", flush=True)
            time.sleep(SETTLING_SECONDS)
            parts = _pids_by_part(cluster)
            samples = _measure(parts)
    for sample in samples.values():
        print(sample)
    ours = sum(sample.median for name, sample in samples.items() if name != "bare Spark")
    ratio = ours / samples["bare Spark"].median
    return [Verdict("quiet streams, ratio of processor time to bare ones", ratio, AIM, "times")]


def _start_bare(spark: Any, source: Path, checkpoint: Path) -> None:
    frame = spark.readStream.schema(SCHEMA).parquet(str(source))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer.trigger(processingTime=TRIGGER).start()


def _pids_by_part(cluster: LocalCluster) -> dict[str, list[int]]:
    assert cluster.state is not None
    executor = cluster.state.task_executors[0].pid
    below = descendants_of(executor)
    zygote = next(pid for pid in below if is_zygote(pid))
    return {
        "bare Spark": _java_processes(set(descendants_of(os.getpid())).difference(below)),
        "Spark": _java_processes(below),
        "runners": children_of(zygote),
        "task executor": [executor],
        "master": [master.pid for master in cluster.state.masters],
    }


def _java_processes(pids: Iterable[int]) -> list[int]:
    return [pid for pid in pids if program_of(pid) == "java"]


def _measure(parts: dict[str, list[int]]) -> dict[str, Sample]:
    used: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(ROUNDS):
        before = {name: _processor_seconds(pids) for name, pids in parts.items()}
        time.sleep(SECONDS)
        for name, pids in parts.items():
            seconds = (_processor_seconds(pids) - before[name]) / SECONDS / STREAMS
            used[name].append(1000 * seconds)
    return {name: Sample(name, tuple(each), "ms a second") for name, each in used.items()}


def _processor_seconds(pids: Iterable[int]) -> float:
    return sum(map(processor_seconds, pids))
