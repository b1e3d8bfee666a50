"""A ten-row job, submit to FINISHED, against the same action in a bare warm Connect session."""

from pyspark.sql import SparkSession

from bench.cluster import whole_cluster
from bench.measure import Verdict, alternate
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids

ROUNDS = 30
AIM = 1.6


def ten_rows() -> Pipeline:
    pipeline = Pipeline("ten-rows")

    @pipeline.source
    def numbers(spark):  # type: ignore[no-untyped-def]
        return spark.range(10)

    pipeline.sink("numbers", format="noop", mode="overwrite")
    return pipeline


def run() -> list[Verdict]:
    ids = Ids()
    pipeline = ten_rows()
    spark = SparkSession.builder.remote("local[*]").getOrCreate()
    try:
        with whole_cluster() as cluster:
            client = BlockingClient(cluster.masters)

            def bare() -> None:
                spark.range(10).write.format("noop").mode("overwrite").save()

            def ours() -> None:
                job_id = client.submit(pipeline.build(job_id=ids.job()), {}).job_id
                status = client.wait(job_id)
                assert status == "FINISHED", status

            reference, job = alternate(
                bare, ours, names=("bare warm Connect session", "stoker job"), rounds=ROUNDS
            )
    finally:
        spark.stop()
    print(f"{reference}\n{job}")
    ratio = job.median / reference.median
    return [Verdict("ten-row job, times the bare action", ratio, AIM, "times")]
