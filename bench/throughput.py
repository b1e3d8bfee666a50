"""A large batch and a stream at full speed, against the same in bare PySpark.

The size of the batch is STOKER_BENCH_MEGABYTES, 2000 without it.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.cluster import whole_cluster
from bench.measure import Sample, Verdict, rounds
from bench.sessions import bare_session
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids

MEGABYTES = int(os.environ.get("STOKER_BENCH_MEGABYTES", "2000"))
ROUNDS = rounds(3)
ROWS_IN_A_MEGABYTE = 16_000
"""Of 64 bytes: a key and a text that hardly compresses."""
AIM = 0.97
AGGREGATION = (
    "SELECT key, count(*) AS n, max(text) AS text, sum(length(text)) AS total FROM {} GROUP BY key"
)


def generate(spark: Any, rows: int, target: str) -> None:
    spark.range(0, rows, 1, 16).selectExpr(
        "id % 100000 AS key", "concat(md5(cast(id AS string)), cast(id AS string)) AS text"
    ).write.parquet(target)


def batch_pipeline(source: str, target: str) -> Pipeline:
    pipeline = Pipeline("batch")
    pipeline.source("rows", format="parquet", path=source)
    pipeline.transform("totals", sql=AGGREGATION.format("rows"))
    pipeline.sink("totals", name="out", format="parquet", path=target, mode="overwrite")
    return pipeline


def stream_pipeline(source: str) -> Pipeline:
    pipeline = Pipeline("stream")
    pipeline.source(
        "rows",
        format="parquet",
        path=source,
        schema="key LONG, text STRING",
        streaming=True,
        options={"maxFilesPerTrigger": "4"},
    )
    pipeline.transform("totals", sql=AGGREGATION.format("rows"))
    pipeline.sink("totals", name="out", format="noop", mode="update", trigger="available-now")
    return pipeline


def seconds(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return perf_counter() - begin


def run() -> list[Verdict]:
    ids = Ids()
    rows = MEGABYTES * ROWS_IN_A_MEGABYTE
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        source, target = f"{folder}/in", f"{folder}/out"
        with bare_session() as spark, whole_cluster() as cluster:
            client = BlockingClient(cluster.masters)
            generate(spark, rows, source)

            def bare_batch() -> None:
                spark.read.parquet(source).createOrReplaceTempView("rows")
                totals = spark.sql(AGGREGATION.format("rows"))
                totals.write.mode("overwrite").parquet(target)

            def bare_stream() -> None:
                checkpoint = Path(folder) / "checkpoint"
                reader = spark.readStream.schema("key LONG, text STRING")
                frame = reader.option("maxFilesPerTrigger", "4").parquet(source)
                frame.createOrReplaceTempView("stream")
                writer = spark.sql(AGGREGATION.format("stream")).writeStream.format("noop")
                query = (
                    writer.outputMode("update")
                    .option("checkpointLocation", str(checkpoint))
                    .trigger(availableNow=True)
                    .start()
                )
                query.awaitTermination()
                shutil.rmtree(checkpoint)

            def job(pipeline: Pipeline) -> Callable[[], None]:
                def submit_and_wait() -> None:
                    job_id = client.submit(pipeline.build(job_id=ids.job()), {}).job_id
                    status = client.wait(job_id)
                    assert status == "FINISHED", status

                return submit_and_wait

            verdicts = []
            for name, bare, ours in (
                ("batch", bare_batch, job(batch_pipeline(source, target))),
                ("streaming aggregation", bare_stream, job(stream_pipeline(source))),
            ):
                verdicts.append(compare(name, rows, bare, ours))
    return verdicts


def compare(
    name: str, rows: int, bare: Callable[[], object], ours: Callable[[], object]
) -> Verdict:
    seconds(bare)
    seconds(ours)
    pairs = [(rows / seconds(bare), rows / seconds(ours)) for _ in range(ROUNDS)]
    reference = Sample(f"{name}, bare PySpark", tuple(pair[0] for pair in pairs), "rows/s")
    jobs = Sample(f"{name}, stoker job", tuple(pair[1] for pair in pairs), "rows/s")
    print(f"{reference}\n{jobs}", flush=True)
    ratio = jobs.median / reference.median
    return Verdict(f"{name}, share of bare throughput", ratio, AIM, "", at_least=True)
