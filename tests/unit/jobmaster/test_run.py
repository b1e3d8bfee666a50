"""What a job master knows when it becomes reachable."""

import asyncio
import dataclasses
import random
from datetime import timedelta

from stoker.core.ids import AllocationId, AttemptId, Ids, InstanceId, RegionId, ResourceId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.gateways.job import JobToRun
from stoker.ha.memory import MemoryCoordination
from stoker.ha.publication import LeaderPublication
from stoker.ha.retrieval import LeaderRetrieval
from stoker.ha.stores.attempts import AttemptRecord, AttemptStore
from stoker.heartbeat.options import HeartbeatOptions
from stoker.jobmaster.job import JobMasterServices
from stoker.jobmaster.run import JobMasterRunner
from stoker.rpc.memory import MemoryNetwork
from stoker.storage.memory import MemoryStorage
from stoker.testing.leadership import seize_leadership
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock
from unit.jobmaster.graphs import JOB, graph_with_sinks

RECORD = AttemptRecord(
    job_id=JOB,
    region=RegionId("out"),
    attempt=AttemptId("e" * 32),
    number=3,
    task_executor=ResourceId("executor"),
    instance=InstanceId("life"),
    address="mem://executor/task_executor-life",
    allocation=AllocationId("slot"),
)


def test_a_master_knows_its_previous_attempts_before_its_address_is_published() -> None:
    """The attempts of a task executor that registers at once must not count as unknown."""

    async def scenario() -> None:
        ids = Ids(random.Random(1))
        session = MemoryCoordination().session()
        runner = JobMasterRunner(
            JobToRun(graph=graph_with_sinks("out"), submitted_at=0),
            JobMasterServices(
                rpc=MemoryNetwork().service("master"),
                ids=ids,
                wall_clock=virtual_wall_clock(),
                resource_manager=LeaderRetrieval(session, "resource_manager"),
                heartbeat=HeartbeatOptions(
                    interval=timedelta(seconds=2), timeout=timedelta(seconds=10)
                ),
            ),
            storage=MemoryStorage(),
        )
        seen: list[JobDetails] = []
        published = asyncio.Event()

        class RecordingPublication(LeaderPublication):
            async def publish(self, address: str) -> None:
                seen.append(runner.details())
                published.set()

        leadership = await seize_leadership(session, component="job", ids=ids)
        await AttemptStore(leadership).put(RECORD)
        publication = RecordingPublication(leadership.grant, "job", leadership.token)
        leading = asyncio.create_task(
            runner.lead(dataclasses.replace(leadership, publication=publication))
        )
        await published.wait()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        [details] = seen
        assert details.status is JobStatus.RECONCILING
        [region] = details.regions
        assert (region.current.attempt, region.current.number) == (RECORD.attempt, RECORD.number)

    run_virtual(scenario)
