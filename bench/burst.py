"""Fifty ten-row jobs at once from eight clients, against bare sessions at the same concurrency."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

from bench.cluster import running_cluster
from bench.measure import Sample, Verdict, rounds
from bench.sessions import bare_session, new_session
from bench.small_job import ten_rows
from stoker.client.blocking import BlockingClient
from stoker.core.ids import Ids

JOBS = 50
CLIENTS = 8
ROUNDS = rounds(5)
AIM = 0.8
CONFIGURATION = f"{{rest.bind-port: '0', taskmanager.numberOfTaskSlots: {CLIENTS}, runner.warm: 4}}"


def rate(work: Callable[[int], object]) -> float:
    """How many jobs a second are completed."""
    begin = perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(work, range(JOBS)))
    return JOBS / (perf_counter() - begin)


def run() -> list[Verdict]:
    ids = Ids()
    pipeline = ten_rows()
    with bare_session() as spark, running_cluster(CONFIGURATION) as cluster:
        client = BlockingClient(cluster.masters)

        def bare(_number: int) -> None:
            with new_session(spark) as session:
                action(session)

        def action(session: Any) -> None:
            session.range(10).write.format("noop").mode("overwrite").save()

        def ours(_number: int) -> None:
            job_id = client.submit(pipeline.build(job_id=ids.job()), {}).job_id
            status = client.wait(job_id)
            assert status == "FINISHED", status

        for work in (bare, ours):
            rate(work)
        pairs = [(rate(bare), rate(ours)) for _ in range(ROUNDS)]
    reference = Sample("bare sessions", tuple(pair[0] for pair in pairs), "jobs/s")
    jobs = Sample("stoker jobs", tuple(pair[1] for pair in pairs), "jobs/s")
    print(f"{reference}\n{jobs}")
    ratio = jobs.median / reference.median
    return [Verdict("burst of jobs, share of bare sessions", ratio, AIM, "", at_least=True)]
