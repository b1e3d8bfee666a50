"""Jobs for the fake engine, scenarios on a simulated cluster, and what scenarios ask it."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from stoker.core.checkpoints import SavepointRequest
from stoker.core.graph import (
    Artifact,
    ArtifactKind,
    FormatRead,
    FormatWrite,
    JobGraph,
    JobType,
    RestartPolicy,
    Sink,
    Source,
)
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import ExecutionState, JobStatus
from stoker.dispatcher.options import QueueOptions
from stoker.events.options import EventOptions
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.jobmaster.options import JobMasterOptions
from stoker.testing.simulated_cluster import SimulatedCluster
from stoker.testing.virtual_time import run_virtual

FOREVER = 1e6
SAVEPOINT_DIRECTORY = "/saved"
STOP = SavepointRequest(directory=SAVEPOINT_DIRECTORY, stop=True, limit_seconds=20)
"""Stop the job with a savepoint."""
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


def stream(
    cluster: SimulatedCluster, *, seconds: float = FOREVER, fails: int = 0, **settings: str
) -> JobGraph:
    """A streaming job of two regions that always restarts; `settings` are its configuration."""
    graph = job(
        cluster, seconds=seconds, fails=fails, sinks=2, streaming=True, restart=MANY_RESTARTS
    )
    return msgspec.structs.replace(graph, configuration=graph.configuration | settings)


def with_file(cluster: SimulatedCluster, graph: JobGraph) -> tuple[JobGraph, str]:
    """The job with a file, which is uploaded; and the path of the file in the storage."""
    content = b"print()"
    sha256 = hashlib.sha256(content).hexdigest()
    file = Artifact(name="a.py", kind=ArtifactKind.PYTHON, sha256=sha256, size=len(content))
    path = f"blobs/{graph.job_id}/{sha256}"
    cluster.storage.files[path] = content
    return msgspec.structs.replace(graph, artifacts=(file,)), path


def simulate(
    folder: Path,
    scenario: Callable[[SimulatedCluster], Awaitable[None]],
    *,
    seed: int = 1,
    masters: int = 2,
    executors: int = 3,
    slots: int = 2,
    queues: QueueOptions | None = None,
    job_master: JobMasterOptions | None = None,
    events: EventOptions | None = None,
) -> SimulatedCluster:
    """Run `scenario`, check the invariants at its end, and return the cluster."""
    clusters: list[SimulatedCluster] = []

    async def run() -> None:
        cluster = SimulatedCluster(
            seed,
            folder,
            slots=slots,
            queues=queues or QueueOptions(),
            job_master=job_master or JobMasterOptions(),
            event_options=events or EventOptions(),
        )
        clusters.append(cluster)
        async with cluster.running(masters=masters, executors=executors):
            await scenario(cluster)
            assert await cluster.broken_invariants() == []

    run_virtual(run, seed=seed)
    return clusters[0]


async def dispatcher_of(cluster: SimulatedCluster) -> DispatcherGateway:
    """A direct gateway, which shows errors after which a client would retry."""
    leader = await cluster._dispatcher.wait_for_leader()
    return await cluster._rpc.connect(leader.address, DispatcherGateway, token=leader.token)


async def details_of(cluster: SimulatedCluster, job_id: JobId) -> JobDetails:
    return await cluster.ask(lambda dispatcher: dispatcher.job_details(job_id))


async def wait_until_running(cluster: SimulatedCluster, job_id: JobId) -> None:
    """Wait until the job and all its regions run."""
    async with asyncio.timeout(300):
        while True:
            details = await details_of(cluster, job_id)
            states = {region.current.state for region in details.regions}
            if details.status is JobStatus.RUNNING and states == {ExecutionState.RUNNING}:
                return
            await asyncio.sleep(0.5)


async def whole_life(cluster: SimulatedCluster) -> None:
    """Run one job that finishes, one that fails first, and one that is cancelled."""
    plain = await cluster.submit(job(cluster, sinks=2, restart=MANY_RESTARTS))
    failing = await cluster.submit(job(cluster, fails=1, restart=MANY_RESTARTS))
    endless = await cluster.submit(
        job(cluster, seconds=FOREVER, sinks=2, streaming=True, cancel_seconds=1)
    )
    await asyncio.sleep(3)
    await cluster.cancel(endless)
    assert await cluster.wait_for_end(plain) is JobStatus.FINISHED
    assert await cluster.wait_for_end(failing) is JobStatus.FINISHED
    assert await cluster.wait_for_end(endless) is JobStatus.CANCELED
    await asyncio.sleep(100)
    overview = await cluster.ask(lambda dispatcher: dispatcher.cluster_overview())
    assert overview.resources.slots_free == 6
    assert [key for key in cluster.coordination.all_keys() if key.startswith("jobs/")] == []


def graph_path(cluster: SimulatedCluster, job_id: JobId) -> str:
    """Path of the file with the graph of a job."""
    [path] = [path for path in cluster.storage.files if path.startswith(f"jobs/{job_id}/graph")]
    return path
