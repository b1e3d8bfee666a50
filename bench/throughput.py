"""A large batch, a stream at full speed and a stream of many small batches, against bare PySpark.

BENCH_MEGABYTES sets the size of the input; the default is 2000.
"""

import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.cluster import running_cluster
from bench.measure import Sample, Verdict, rounds
from bench.sessions import bare_session
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids

MEGABYTES = int(os.environ.get("BENCH_MEGABYTES", "2000"))
ROUNDS = rounds(3)
ROWS_PER_MEGABYTE = 16_000
"""A row has 64 bytes: a key and a text that hardly compresses."""
SMALL_BATCHES = 40
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


def generate_small(spark: Any, target: str) -> None:
    """Write many files with a few rows each."""
    rows = spark.range(0, 10 * SMALL_BATCHES, 1, SMALL_BATCHES)
    rows.selectExpr("id % 10 AS key", "cast(id AS string) AS text").write.parquet(target)


def stream_pipeline(source: str, files_per_batch: int) -> Pipeline:
    pipeline = Pipeline("stream")
    pipeline.source(
        "rows",
        format="parquet",
        path=source,
        schema="key LONG, text STRING",
        streaming=True,
        options={"maxFilesPerTrigger": str(files_per_batch)},
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
    rows = MEGABYTES * ROWS_PER_MEGABYTE
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        source, small, target = f"{folder}/in", f"{folder}/small", f"{folder}/out"
        with bare_session() as spark, running_cluster() as cluster:
            client = BlockingClient(cluster.masters)
            generate(spark, rows, source)
            generate_small(spark, small)

            def bare_batch() -> None:
                spark.read.parquet(source).createOrReplaceTempView("rows")
                totals = spark.sql(AGGREGATION.format("rows"))
                totals.write.mode("overwrite").parquet(target)

            def bare_stream(source: str, files_per_batch: int) -> None:
                checkpoint = Path(folder) / "checkpoint"
                reader = spark.readStream.schema("key LONG, text STRING")
                frame = reader.option("maxFilesPerTrigger", str(files_per_batch)).parquet(source)
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
            ours = job(batch_pipeline(source, target))
            verdicts.append(compare("batch", (rows, "rows/s"), bare_batch, ours))
            for name, amount, files, files_per_batch in (
                ("streaming aggregation", (rows, "rows/s"), source, 4),
                ("stream of small batches", (SMALL_BATCHES, "batches/s"), small, 1),
            ):
                bare = functools.partial(bare_stream, files, files_per_batch)
                ours = job(stream_pipeline(files, files_per_batch))
                verdicts.append(compare(name, amount, bare, ours))
    return verdicts


def compare(
    name: str,
    work: tuple[int, str],
    bare: Callable[[], object],
    ours: Callable[[], object],
) -> Verdict:
    amount, unit = work
    seconds(bare)
    seconds(ours)
    pairs = [(amount / seconds(bare), amount / seconds(ours)) for _ in range(ROUNDS)]
    reference = Sample(f"{name}, bare PySpark", tuple(pair[0] for pair in pairs), unit)
    jobs = Sample(f"{name}, stoker job", tuple(pair[1] for pair in pairs), unit)
    print(f"{reference}\n{jobs}", flush=True)
    ratio = jobs.median / reference.median
    return Verdict(f"{name}, share of bare throughput", ratio, AIM, "", at_least=True)
