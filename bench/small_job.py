"""A ten-row job, from submission to FINISHED, against the same action in a warm bare session.

It is measured twice: back to back, where the next runner warms up during the bare action, and with
a rest before each action.
"""

from pyspark.sql import SparkSession

from bench.cluster import running_cluster
from bench.measure import Sample, Verdict, alternate, rounds
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids

ROUNDS = rounds(30)
REST_SECONDS = 1.0
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
        with running_cluster() as cluster:
            client = BlockingClient(cluster.masters)

            def bare() -> None:
                spark.range(10).write.format("noop").mode("overwrite").save()

            def ours() -> None:
                job_id = client.submit(pipeline.build(job_id=ids.job()), {}).job_id
                status = client.wait(job_id)
                assert status == "FINISHED", status

            names = ("warm bare Connect session", "stoker job")
            busy = alternate(bare, ours, names=names, rounds=ROUNDS)
            rested = alternate(
                bare,
                ours,
                names=(f"{names[0]}, after a rest", f"{names[1]}, after a rest"),
                rounds=ROUNDS,
                rest_seconds=REST_SECONDS,
            )
    finally:
        spark.stop()
    return [
        verdict("ten-row job, ratio to the bare action", busy),
        verdict("ten-row job after a rest, ratio to the bare action", rested),
    ]


def verdict(name: str, samples: tuple[Sample, Sample]) -> Verdict:
    reference, job = samples
    print(f"{reference}\n{job}")
    return Verdict(name, job.median / reference.median, AIM, "times")
