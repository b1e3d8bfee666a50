"""Jobs for the fake engine, and the function that runs a scenario on a simulated cluster."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from stoker.core.graph import (
    FormatRead,
    FormatWrite,
    JobGraph,
    JobType,
    RestartPolicy,
    Sink,
    Source,
)
from stoker.testing.simulated_cluster import SimulatedCluster
from stoker.testing.virtual_time import run_virtual

FOREVER = 1e6
MANY_RESTARTS = RestartPolicy(strategy="fixed-delay", attempts=1000, delay_seconds=1)


def job(
    cluster: SimulatedCluster,
    *,
    seconds: float = 1,
    fails: int = 0,
    sinks: int = 1,
    streaming: bool = False,
    cancel_seconds: float = 0,
    restart: RestartPolicy | None = None,
) -> JobGraph:
    source = FormatRead(format="rate") if streaming else FormatRead(format="parquet", path="/in")
    trigger = "1 second" if streaming else None
    return JobGraph(
        job_id=cluster.ids.job(),
        name="simulated",
        job_type=JobType.STREAMING if streaming else JobType.BATCH,
        vertices=(
            Source(name="numbers", read=source, streaming=streaming),
            *(
                Sink(
                    name=f"sink-{number}",
                    input="numbers",
                    write=FormatWrite(format="noop"),
                    trigger=trigger,
                )
                for number in range(sinks)
            ),
        ),
        configuration={
            "fake.seconds": str(seconds),
            "fake.fails": str(fails),
            "fake.cancel-seconds": str(cancel_seconds),
        },
        restart=restart,
    )


def simulate(
    folder: Path,
    scenario: Callable[[SimulatedCluster], Awaitable[None]],
    *,
    seed: int = 1,
    masters: int = 2,
    executors: int = 3,
) -> SimulatedCluster:
    clusters: list[SimulatedCluster] = []

    async def run() -> None:
        cluster = SimulatedCluster(seed, folder)
        clusters.append(cluster)
        async with cluster.running(masters=masters, executors=executors):
            await scenario(cluster)
            assert await cluster.broken_invariants() == []

    run_virtual(run, seed=seed)
    return clusters[0]
