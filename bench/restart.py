"""Time from a failed attempt of a region to the next running attempt, by the job's timestamps."""

import tempfile
from pathlib import Path

from bench.cluster import running_cluster
from bench.measure import Sample, Verdict
from stoker import Pipeline
from stoker.client.blocking import BlockingClient
from stoker.core.graph import RestartPolicy
from stoker.core.ids import Ids
from stoker.core.states import ExecutionState, JobStatus

ROUNDS = 15
AIM_MS = 500


def failing_once(marker: Path) -> Pipeline:
    policy = RestartPolicy(strategy="fixed-delay", attempts=1, delay_seconds=0)
    pipeline = Pipeline("failing-once", restart=policy)
    path = str(marker)

    @pipeline.source
    def numbers(spark):  # type: ignore[no-untyped-def]
        from pathlib import Path  # noqa: PLC0415

        if not Path(path).exists():
            Path(path).touch()
            raise RuntimeError("the first attempt fails")
        return spark.range(10)

    pipeline.sink("numbers", format="noop", mode="overwrite")
    return pipeline


def run() -> list[Verdict]:
    ids = Ids()
    waits: list[float] = []
    with tempfile.TemporaryDirectory() as folder, running_cluster() as cluster:
        client = BlockingClient(cluster.masters)
        for number in range(ROUNDS):
            pipeline = failing_once(Path(folder) / f"{number}")
            job_id = client.submit(pipeline.build(job_id=ids.job()), {}).job_id
            assert client.wait(job_id) is JobStatus.FINISHED
            [region] = client.job(job_id).regions
            failed = region.former[-1].timestamps[ExecutionState.FAILED]
            waits.append(float(region.current.timestamps[ExecutionState.RUNNING] - failed))
    sample = Sample("from a failed attempt to the next running one", tuple(waits))
    print(sample)
    return [Verdict("restart of a failed region", sample.median, AIM_MS, "ms")]
