"""What a job master knows when it becomes reachable."""

import asyncio
import dataclasses
import random
from datetime import timedelta

import msgspec
import pytest

from stoker.core.errors import CannotResume, CorruptContent, StorageUnavailable
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import AllocationId, AttemptId, Ids, InstanceId, RegionId, ResourceId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.gateways.job import JobToRun
from stoker.ha.memory import MemoryCoordination, MemoryCoordinator
from stoker.ha.publication import LeaderPublication
from stoker.ha.retrieval import LeaderRetrieval
from stoker.ha.stores.attempts import AttemptRecord, AttemptStore
from stoker.heartbeat.options import HeartbeatOptions
from stoker.jobmaster.job import JobMasterServices
from stoker.jobmaster.run import JobMasterRunner
from stoker.rpc.memory import MemoryNetwork
from stoker.savepoints.locations import SavepointServices
from stoker.savepoints.restore import restore_record_path
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


RESTORED = msgspec.structs.replace(
    graph_with_sinks("out", streaming=True), restore=Restore(path="/saved/savepoint-1")
)


def runner_of(
    graph: JobGraph,
    session: MemoryCoordinator,
    ids: Ids,
    storage: MemoryStorage,
    *,
    recovered: bool = False,
    saved: MemoryStorage | None = None,
) -> JobMasterRunner:
    """`saved` is the storage of savepoints."""
    savepoints = saved or MemoryStorage()
    return JobMasterRunner(
        JobToRun(graph=graph, submitted_at=0, recovered=recovered),
        JobMasterServices(
            rpc=MemoryNetwork().service("master"),
            ids=ids,
            wall_clock=virtual_wall_clock(),
            resource_manager=LeaderRetrieval(session, "resource_manager"),
            heartbeat=HeartbeatOptions(
                interval=timedelta(seconds=2), timeout=timedelta(seconds=10)
            ),
            savepoints=SavepointServices(open_storage=lambda _url: savepoints),
        ),
        storage=storage,
    )


def test_a_master_knows_its_previous_attempts_before_its_address_is_published() -> None:
    """The attempts of a task executor that registers at once must not count as unknown."""

    async def scenario() -> None:
        ids = Ids(random.Random(1))
        session = MemoryCoordination().session()
        runner = runner_of(graph_with_sinks("out"), session, ids, MemoryStorage())
        seen: list[JobDetails] = []
        published = asyncio.Event()

        class RecordingPublication(LeaderPublication):
            async def publish(self, address: str, socket: str = "") -> None:
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


@pytest.mark.parametrize(
    ("is_away", "error"), [(False, CorruptContent), (True, StorageUnavailable)]
)
def test_an_unreadable_record_of_the_start_from_a_savepoint_does_not_fail_the_job(
    is_away: bool, error: type[Exception]
) -> None:
    """The clean-up of a failed job would delete the checkpoints that it has made since.

    For these errors the dispatcher puts the job into quarantine or starts another job master.
    """

    async def scenario() -> None:
        ids = Ids(random.Random(1))
        session = MemoryCoordination().session()
        storage = MemoryStorage()
        await storage.write(restore_record_path(JOB), b'{"path": "\xff')
        if is_away:
            storage.go_away()
        runner = runner_of(RESTORED, session, ids, storage)
        leadership = await seize_leadership(session, component="job", ids=ids)
        with pytest.raises(error):
            await runner.lead(leadership)
        assert runner.status is JobStatus.INITIALIZING

    run_virtual(scenario)


@pytest.mark.parametrize("recovered", [False, True])
def test_only_a_new_job_fails_because_its_start_failed(recovered: bool) -> None:
    """The savepoint is gone. A job that a leader recovers may have state of its own (DISP-10)."""

    async def scenario() -> None:
        ids = Ids(random.Random(1))
        session = MemoryCoordination().session()
        runner = runner_of(RESTORED, session, ids, MemoryStorage(), recovered=recovered)
        leadership = await seize_leadership(session, component="job", ids=ids)
        if recovered:
            with pytest.raises(CannotResume, match="there is no such directory"):
                await runner.lead(leadership)
        else:
            await runner.lead(leadership)
            failure = (await runner.wait_for_end()).failure
            assert failure is not None
            assert failure.error == "UnusableSavepoint"

    run_virtual(scenario)


def test_a_recovered_job_waits_for_the_storage_of_its_savepoint() -> None:
    """The dispatcher starts another job master after this error, for as long as it takes."""

    async def scenario() -> None:
        ids = Ids(random.Random(1))
        session = MemoryCoordination().session()
        saved = MemoryStorage()
        saved.go_away()
        runner = runner_of(RESTORED, session, ids, MemoryStorage(), recovered=True, saved=saved)
        leadership = await seize_leadership(session, component="job", ids=ids)
        with pytest.raises(StorageUnavailable):
            await runner.lead(leadership)

    run_virtual(scenario)


def test_a_job_that_had_attempts_is_not_restored_again_when_its_record_is_lost() -> None:
    """Its own checkpoints are newer, and its savepoint may be gone."""

    async def scenario() -> None:
        ids = Ids(random.Random(1))
        session = MemoryCoordination().session()
        runner = runner_of(RESTORED, session, ids, MemoryStorage())
        leadership = await seize_leadership(session, component="job", ids=ids)
        await AttemptStore(leadership).put(RECORD)
        leading = asyncio.create_task(runner.lead(leadership))
        await runner.wait_for_change(JobStatus.INITIALIZING)
        restored = runner.details().checkpoints.restored
        assert restored is not None
        assert restored.path == "/saved/savepoint-1"
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)

    run_virtual(scenario)
