"""The contract of the stores, run on every coordinator and storage.

Flink locks the entries that a leader uses. Stoker uses epochs instead: only the leader of the
newest epoch changes an entry, so no lock has to be released (STORE-05, STORE-06, STORE-12).
"""

from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pytest

from builders import build_details, build_graph
from contract.backends import Backend
from stoker.core.errors import JobNotFound, KeyExists, LeadershipLost, NotFound
from stoker.core.graph import JobGraph, JobType
from stoker.core.ids import AttemptId, Ids, InstanceId, JobId, RegionId, ResourceId
from stoker.core.results import AttemptOutcome, Failure, JobDetails, JobResult
from stoker.core.rows import QueryResult
from stoker.core.states import ApplicationStatus, ExecutionState, JobStatus
from stoker.ha import keys
from stoker.ha.coordinator import Coordinator, Create, Put, Versioned, Watch
from stoker.ha.leadership import Leadership
from stoker.ha.stores.attempts import AttemptRecord, AttemptStore
from stoker.ha.stores.cancellations import CancellationStore, JobRequest
from stoker.ha.stores.job_graphs import AlreadyAccepted, IdInUse, JobGraphStore, Stored, StoredJob
from stoker.ha.stores.job_results import JobResultStore, ResultRecord, UnreadableJob
from stoker.ha.stores.query_results import QueryResultStore
from stoker.ha.stores.shutdowns import ShutdownStage, ShutdownStore
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.storage.contract import Storage
from stoker.testing.leadership import seize_leadership


@dataclass
class Stores:
    coordinator: Coordinator
    storage: Storage
    leadership: Leadership
    ids: Ids

    @property
    def graphs(self) -> JobGraphStore:
        return JobGraphStore(self.leadership, self.storage, self.ids)

    @property
    def results(self) -> JobResultStore:
        return JobResultStore(self.leadership, self.storage, self.ids)

    @property
    def cancellations(self) -> CancellationStore:
        return CancellationStore(self.leadership, self.ids)

    @property
    def attempts(self) -> AttemptStore:
        return AttemptStore(self.leadership)

    @property
    def shutdowns(self) -> ShutdownStore:
        return ShutdownStore(self.leadership, self.ids)

    @property
    def outcomes(self) -> OutcomeStore:
        return OutcomeStore(self.storage)


@pytest.fixture
async def stores(backend: Backend) -> Stores:
    leadership = await seize_leadership(backend.coordinator, ids=backend.ids)
    return Stores(backend.coordinator, backend.storage, leadership, backend.ids)


def orders_graph(ids: Ids, name: str = "orders", key: str | None = None) -> JobGraph:
    return build_graph(job_id=ids.job(), name=name, idempotency_key=key)


def result_and_details(
    job_id: JobId, status: JobStatus = JobStatus.FINISHED, end: int = 2000
) -> tuple[JobResult, JobDetails]:
    result = JobResult(
        job_id=job_id, name="orders", job_type=JobType.BATCH, status=status, start=1000, end=end
    )
    details = build_details(
        status, job_id=job_id, name="orders", timestamps={status: end}, start=1000, end=end
    )
    return result, details


async def test_a_job_is_stored_by_content_and_pointer(stores: Stores):
    """The record at the coordinator is small: it does not hold the graph (STORE-01)."""
    graph = orders_graph(stores.ids)
    outcome = await stores.graphs.put(graph, submitted_at=5)
    assert isinstance(outcome, Stored)
    assert await stores.storage.exists(outcome.record.pointer)
    record = await stores.coordinator.read(f"jobs/{graph.job_id}")
    assert record is not None
    assert b"parquet" not in record.value
    assert msgspec.json.decode(record.value)["v"] == 1


async def test_a_stored_job_comes_back_the_same(stores: Stores):
    """An unknown id is no error (STORE-02)."""
    graph = orders_graph(stores.ids)
    await stores.graphs.put(graph, submitted_at=5)
    found = await stores.graphs.get(graph.job_id)
    assert isinstance(found, StoredJob)
    assert found.graph == graph
    assert found.record.submitted_at == 5
    assert await stores.graphs.get(stores.ids.job()) is None
    assert await stores.graphs.read_all() == [found]


async def test_a_repeated_submission_returns_the_first_job(stores: Stores):
    graph = orders_graph(stores.ids)
    first = await stores.graphs.put(graph, submitted_at=5)
    again = await stores.graphs.put(graph, submitted_at=9)
    assert isinstance(first, Stored)
    assert again == AlreadyAccepted(job_id=graph.job_id, record=first.record)
    assert await stores.storage.list("jobs") == [first.record.pointer]


async def test_another_job_with_the_same_id_conflicts(stores: Stores):
    # STORE-03: a stored job is never replaced by another one.
    graph = orders_graph(stores.ids)
    await stores.graphs.put(graph, submitted_at=5)
    other = msgspec.structs.replace(graph, name="another")
    outcome = await stores.graphs.put(other, submitted_at=5)
    assert outcome == IdInUse(job_id=graph.job_id, ended=False)
    [stored] = await stores.graphs.read_all()
    assert isinstance(stored, StoredJob)
    assert stored.graph == graph


async def test_a_job_keeps_its_owner_until_its_result_is_pruned(stores: Stores):
    """Another owner does not get it by repeating its graph, nor by its idempotency key."""
    graph = orders_graph(stores.ids, key="nightly")
    accepted = await stores.graphs.put(graph, submitted_at=5, owner="ana")
    assert isinstance(accepted, Stored)
    assert accepted.record.owner == "ana"
    again = await stores.graphs.put(graph, submitted_at=9, owner="ana")
    assert again == AlreadyAccepted(job_id=graph.job_id, record=accepted.record)
    theirs = await stores.graphs.put(graph, submitted_at=9, owner="bob")
    assert theirs == IdInUse(job_id=graph.job_id, ended=False)
    same_key = orders_graph(stores.ids, key="nightly")
    assert isinstance(await stores.graphs.put(same_key, submitted_at=9, owner="bob"), Stored)
    result, details = result_and_details(graph.job_id)
    result = msgspec.structs.replace(result, owner="ana")
    await stores.results.create_dirty(result, details)
    await stores.graphs.remove(graph.job_id)
    await stores.results.mark_clean(graph.job_id)
    assert await stores.graphs.put(graph, submitted_at=9, owner="bob") == IdInUse(
        job_id=graph.job_id, ended=True
    )
    repeated = await stores.graphs.put(
        orders_graph(stores.ids, key="nightly"), submitted_at=9, owner="ana"
    )
    assert isinstance(repeated, AlreadyAccepted)
    assert repeated.job_id == graph.job_id
    await stores.results.prune(now=10_000, max_age=timedelta(0), max_count=0)
    fresh = orders_graph(stores.ids, key="nightly")
    assert isinstance(await stores.graphs.put(fresh, submitted_at=9, owner="ana"), Stored)


async def test_an_idempotency_key_of_a_release_without_owners_belongs_to_everybody(stores: Stores):
    """A submission that is repeated while the cluster is upgraded is the same job."""
    first = orders_graph(stores.ids, key="nightly")
    await stores.graphs.put(first, submitted_at=5)
    outcome = await stores.graphs.put(
        orders_graph(stores.ids, key="nightly"), submitted_at=6, owner="ana"
    )
    assert isinstance(outcome, AlreadyAccepted)
    assert outcome.job_id == first.job_id


async def test_a_repeated_idempotency_key_returns_the_first_job(stores: Stores):
    first = orders_graph(stores.ids, key="every/day 2026-11-01")
    second = orders_graph(stores.ids, key="every/day 2026-11-01")
    await stores.graphs.put(first, submitted_at=5)
    outcome = await stores.graphs.put(second, submitted_at=6)
    assert isinstance(outcome, AlreadyAccepted)
    assert outcome.job_id == first.job_id
    assert len(await stores.graphs.read_all()) == 1


async def test_a_job_that_ends_during_its_repeated_submission_is_not_stored_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
):
    """The job ends and is removed between two reads of the store."""
    for reads in (1, 2):
        graph = orders_graph(stores.ids)
        await stores.graphs.put(graph, submitted_at=1)
        coordinator, left = stores.leadership.coordinator, reads
        read = coordinator.read

        async def read_then_end(
            key: str, *, watch: Watch | None = None, graph: JobGraph = graph
        ) -> Versioned | None:
            nonlocal left
            found = await read(key, watch=watch)  # noqa: B023
            left -= 1
            if left == 0:
                await stores.results.create_dirty(*result_and_details(graph.job_id))
                await stores.graphs.remove(graph.job_id)
            return found

        with monkeypatch.context() as patch:
            patch.setattr(coordinator, "read", read_then_end)
            again = await stores.graphs.put(graph, submitted_at=2)
        assert isinstance(again, AlreadyAccepted), f"after read {reads}"


async def test_an_ended_job_is_never_stored_again(stores: Stores):
    # STORE-14, design invariant 2
    graph = orders_graph(stores.ids, key="once")
    await stores.graphs.put(graph, submitted_at=5)
    await stores.results.create_dirty(*result_and_details(graph.job_id))
    await stores.graphs.remove(graph.job_id)
    await stores.results.mark_clean(graph.job_id)
    again = AlreadyAccepted(job_id=graph.job_id, record=None)
    assert await stores.graphs.put(graph, submitted_at=9) == again
    other = msgspec.structs.replace(graph, name="another")
    conflict = IdInUse(job_id=graph.job_id, ended=True)
    assert await stores.graphs.put(other, submitted_at=9) == conflict
    same_key = orders_graph(stores.ids, key="once")
    assert await stores.graphs.put(same_key, submitted_at=9) == again
    assert await stores.graphs.read_all() == []


async def test_removing_a_job_removes_pointer_content_and_cancellation_requests(stores: Stores):
    """The other job keeps its own, and a second removal succeeds (STORE-04, X-STORE-11)."""
    graph, other = orders_graph(stores.ids), orders_graph(stores.ids)
    await stores.graphs.put(graph, submitted_at=5)
    await stores.graphs.put(other, submitted_at=5)
    await stores.cancellations.cancel(graph.job_id, at=6)
    await stores.cancellations.cancel(other.job_id, at=6)
    await stores.graphs.remove(graph.job_id)
    await stores.graphs.remove(graph.job_id)
    [left] = await stores.graphs.read_all()
    assert isinstance(left, StoredJob)
    assert left.graph == other
    assert set(await stores.cancellations.all()) == {other.job_id}
    assert await stores.storage.list("jobs") == [left.record.pointer]


async def test_a_removal_that_was_interrupted_is_finished_by_repeating_it(stores: Stores):
    """Content that lost its pointer is removed too (STORE-11)."""
    graph = orders_graph(stores.ids)
    outcome = await stores.graphs.put(graph, submitted_at=5)
    assert isinstance(outcome, Stored)
    await stores.graphs.remove(graph.job_id)
    await stores.storage.write(outcome.record.pointer, b"left over")
    await stores.graphs.remove(graph.job_id)
    assert await stores.storage.list("") == []


async def test_a_job_whose_content_is_damaged_is_quarantined_and_harms_no_other(stores: Stores):
    """It is listed with the reason (X-STORE-01, X-STORE-08; design invariant 7)."""
    graphs = [orders_graph(stores.ids, name) for name in ("good", "gone", "broken", "swapped")]
    outcomes = [await stores.graphs.put(graph, submitted_at=5) for graph in graphs]
    pointers = [outcome.record.pointer for outcome in outcomes if isinstance(outcome, Stored)]
    await stores.storage.delete(pointers[1])
    await stores.storage.write(pointers[2], b"{")
    await stores.storage.write(pointers[3], await stores.storage.read(pointers[0]))
    unreadable_record = stores.ids.job()
    await stores.coordinator.commit([Create(f"jobs/{unreadable_record}", b'{"v":7}')])
    await stores.coordinator.commit([Create("jobs/no-id", b"")])  # X-STORE-03
    loaded = await stores.graphs.read_all()
    assert [job.graph.name for job in loaded if isinstance(job, StoredJob)] == ["good"]
    quarantined = {job.job_id: job for job in loaded if isinstance(job, UnreadableJob)}
    assert set(quarantined) == {*(graph.job_id for graph in graphs[1:]), unreadable_record}
    assert quarantined[graphs[1].job_id].pointer == pointers[1]
    assert "no file" in quarantined[graphs[1].job_id].reason
    assert "cannot be understood" in quarantined[graphs[2].job_id].reason
    assert "not the graph that was accepted" in quarantined[graphs[3].job_id].reason
    assert await stores.storage.exists(pointers[2])


async def test_a_previous_leader_cannot_change_a_store(stores: Stores):
    # Design invariant 4, STORE-05
    graph = orders_graph(stores.ids)
    await stores.graphs.put(graph, submitted_at=5)
    await stores.results.create_dirty(*result_and_details(graph.job_id))
    old = Stores(stores.coordinator, stores.storage, stores.leadership, stores.ids)
    await seize_leadership(stores.coordinator, ids=stores.ids)
    before = await stores.storage.list("")
    late = orders_graph(stores.ids)
    for write in (
        old.graphs.put(late, submitted_at=5),
        old.graphs.remove(graph.job_id),
        old.results.create_dirty(*result_and_details(late.job_id)),
        old.results.mark_clean(graph.job_id),
        old.cancellations.cancel(graph.job_id, at=1),
        old.attempts.put(attempt_of(graph.job_id)),
        old.shutdowns.ask(ApplicationStatus.SUCCEEDED, at=1),
    ):
        with pytest.raises(LeadershipLost):
            await write
    assert await stores.storage.list("") == before
    assert await stores.coordinator.children("wishes") == []
    assert await stores.coordinator.children("attempts") == []
    assert await stores.coordinator.read(keys.SHUTDOWN) is None


async def test_a_result_is_dirty_first_and_clean_later(stores: Stores):
    # STORE-13, STORE-15, STORE-16, STORE-17: clean results are kept
    job_id, other = stores.ids.job(), stores.ids.job()
    assert await stores.results.all() == []
    await stores.results.create_dirty(*result_and_details(job_id))
    await stores.results.create_dirty(*result_and_details(other, JobStatus.FAILED))
    await stores.results.mark_clean(job_id)
    await stores.results.mark_clean(job_id)
    assert [record.result.job_id for record in await stores.results.dirty()] == [other]
    record = await stores.results.get(job_id)
    assert record is not None
    assert not record.dirty
    assert len(await stores.results.all()) == 2


async def test_a_result_is_recorded_once(stores: Stores):
    """The first one stands, whether it is dirty or clean (STORE-14)."""
    job_id = stores.ids.job()
    await stores.results.create_dirty(*result_and_details(job_id))
    for _ in range(2):
        with pytest.raises(KeyExists):
            await stores.results.create_dirty(*result_and_details(job_id, JobStatus.CANCELED))
        await stores.results.mark_clean(job_id)
    record = await stores.results.get(job_id)
    assert record is not None
    assert record.result.status is JobStatus.FINISHED
    assert len(await stores.storage.list("results")) == 1


async def test_marking_an_unknown_result_clean_is_refused(stores: Stores):
    """A clean-up that marks the wrong job must not pass unnoticed (X-STORE-09)."""
    with pytest.raises(JobNotFound):
        await stores.results.mark_clean(stores.ids.job())


async def test_a_result_and_its_details_come_back_the_same(stores: Stores):
    """An unknown job has neither (STORE-18, STORE-20)."""
    job_id = stores.ids.job()
    failure = Failure(error="AnalysisException", message="no column x", stack_trace="line 1")
    result, details = result_and_details(job_id, JobStatus.FAILED)
    result = msgspec.structs.replace(result, failure=failure)
    await stores.results.create_dirty(result, details)
    record = await stores.results.get(job_id)
    assert record is not None
    assert (record.v, record.result) == (1, result)
    assert record.result.net_runtime == 1000
    assert await stores.results.details(job_id) == details
    assert await stores.results.get(stores.ids.job()) is None
    with pytest.raises(NotFound):
        await stores.results.details(stores.ids.job())


async def test_a_huge_stack_trace_does_not_keep_a_job_from_ending(stores: Stores):
    job_id = stores.ids.job()
    result, details = result_and_details(job_id, JobStatus.FAILED)
    failure = Failure(error="Error", message="m" * 600_000, stack_trace="s" * 600_000)
    await stores.results.create_dirty(msgspec.structs.replace(result, failure=failure), details)
    record = await stores.results.get(job_id)
    assert record is not None
    assert record.result.failure is not None
    assert record.result.failure.stack_trace.startswith("ssss")


async def test_an_unreadable_result_still_says_that_the_job_ended(stores: Stores):
    job_id = stores.ids.job()
    await stores.results.create_dirty(*result_and_details(job_id))
    await stores.coordinator.commit([Put(f"results/{job_id}", b"?")])
    [record] = await stores.results.all()
    assert isinstance(record, UnreadableJob)
    assert record.job_id == job_id
    graph = msgspec.structs.replace(orders_graph(stores.ids), job_id=job_id)
    outcome = await stores.graphs.put(graph, submitted_at=1)
    assert outcome == IdInUse(job_id=job_id, ended=True)


async def test_clean_results_beyond_the_limits_of_age_and_count_are_pruned(stores: Stores):
    """A dirty result stays, however old it is (STORE-21)."""
    jobs = [stores.ids.job() for _ in range(5)]
    for number, job_id in enumerate(jobs):
        await stores.results.create_dirty(*result_and_details(job_id, end=1000 * number))
    for job_id in jobs[1:]:
        await stores.results.mark_clean(job_id)
    pruned = await stores.results.prune(5000, max_age=timedelta(seconds=3), max_count=2)
    assert set(pruned) == {jobs[1], jobs[2]}
    left = {
        record.result.job_id
        for record in await stores.results.all()
        if isinstance(record, ResultRecord)
    }
    assert left == {jobs[0], jobs[3], jobs[4]}
    assert len(await stores.storage.list("results")) == 3
    assert await stores.results.prune(5000, max_age=None, max_count=None) == []


async def test_the_rows_of_a_jobs_queries_go_with_its_result_and_not_before(stores: Stores):
    job_id, other = stores.ids.job(), stores.ids.job()
    for each in (job_id, other):
        rows = QueryResultStore.of_attempt(stores.storage, each, AttemptId("1" * 32))
        await rows.write_rows(1, 0, [b"[1]"])
        await rows.record(1, QueryResult(statement="SELECT 1", columns=(), pieces=(1,)))
        await stores.results.create_dirty(*result_and_details(each))
        await stores.graphs.remove(each)
        assert await rows.numbers() == [1]
    await stores.results.mark_clean(job_id)
    assert await stores.results.prune(10_000_000, max_age=timedelta(0), max_count=None) == [job_id]
    assert await stores.storage.list(f"rows/{job_id}") == []
    assert len(await stores.storage.list(f"rows/{other}")) == 2


async def test_a_pruned_job_and_its_key_can_be_submitted_again(stores: Stores):
    graph = orders_graph(stores.ids, key="daily")
    await stores.graphs.put(graph, submitted_at=5)
    await stores.results.create_dirty(*result_and_details(graph.job_id))
    await stores.graphs.remove(graph.job_id)
    await stores.results.mark_clean(graph.job_id)
    await stores.results.prune(10_000_000, max_age=timedelta(0), max_count=None)
    assert isinstance(await stores.graphs.put(graph, submitted_at=9), Stored)


async def test_a_cancellation_request_is_stored_and_can_be_repeated(stores: Stores):
    graph = orders_graph(stores.ids)
    await stores.graphs.put(graph, submitted_at=5)
    assert await stores.cancellations.get(graph.job_id) is None
    await stores.cancellations.cancel(graph.job_id, at=7)
    await stores.cancellations.cancel(graph.job_id, at=8)
    request = await stores.cancellations.get(graph.job_id)
    assert request is not None
    assert (request.wish, request.at) == (JobRequest.CANCEL, 7)
    await stores.cancellations.remove(graph.job_id)
    await stores.cancellations.remove(graph.job_id)
    assert await stores.cancellations.all() == {}


async def test_a_cancellation_request_for_an_unknown_job_is_refused(stores: Stores):
    with pytest.raises(JobNotFound):
        await stores.cancellations.cancel(stores.ids.job(), at=7)


def attempt_of(job_id: JobId, region: str = "out", number: int = 1) -> AttemptRecord:
    return AttemptRecord(
        job_id=job_id,
        region=RegionId(region),
        attempt=AttemptId(f"{number:032x}"),
        number=number,
        task_executor=ResourceId("task-executor-1"),
        instance=InstanceId("1" * 32),
        address="127.0.0.1:1",
    )


async def test_a_first_attempt_replaces_any_earlier_record(stores: Stores):
    """A job under a new leader may have an old record, which the store does not read first."""
    job_id = stores.ids.job()
    first = attempt_of(job_id, number=0)
    await stores.attempts.put(first)
    assert await stores.attempts.of_job(job_id) == [first]
    await stores.attempts.put(attempt_of(job_id, number=3))
    again = msgspec.structs.replace(first, address="127.0.0.1:2")
    await stores.attempts.put(again)
    assert await stores.attempts.of_job(job_id) == [again]


async def test_the_last_attempt_of_each_region_is_known(stores: Stores):
    job_id, other = stores.ids.job(), stores.ids.job()
    names = ["out", "a/b", "..", ".", "größe 100%", "a%2Fb"]
    for name in names:
        await stores.attempts.put(attempt_of(job_id, name))
    await stores.attempts.put(attempt_of(job_id, "out", 2))
    await stores.attempts.put(attempt_of(other))
    known = await stores.attempts.of_job(job_id)
    assert [record.region for record in known] == sorted(names)
    assert await stores.attempts.get(job_id, RegionId("out")) == attempt_of(job_id, "out", 2)
    await stores.graphs.remove(job_id)
    await stores.graphs.remove(job_id)
    assert await stores.attempts.of_job(job_id) == []
    assert len(await stores.attempts.of_job(other)) == 1


async def test_the_first_outcome_of_an_attempt_stands(stores: Stores):
    job_id, region = stores.ids.job(), RegionId("../größe")
    first = AttemptOutcome(
        job_id=job_id,
        region=region,
        attempt=AttemptId("1"),
        state=ExecutionState.FINISHED,
        at=5,
    )
    second = msgspec.structs.replace(first, state=ExecutionState.FAILED, at=6)
    assert await stores.outcomes.read(job_id, region, first.attempt) is None
    assert await stores.outcomes.write(first) == first
    assert await stores.outcomes.write(second) == first
    assert await stores.outcomes.read(job_id, region, first.attempt) == first
    assert await stores.outcomes.of_region(job_id, region) == [first]
    assert await stores.outcomes.of_region(job_id, RegionId("another")) == []


async def test_records_are_read_without_the_stored_graphs(stores: Stores):
    # STORE-10: a sweep reads only the records.
    kept, damaged = orders_graph(stores.ids), orders_graph(stores.ids)
    for graph in (kept, damaged):
        await stores.graphs.put(graph, submitted_at=5)
    key = f"jobs/{damaged.job_id}"
    found = await stores.coordinator.read(key)
    assert found is not None
    await stores.coordinator.commit([Put(key, b"\0", found.version)])
    await stores.storage.delete_tree("jobs")
    records = await stores.graphs.records()
    record = records[kept.job_id]
    assert record is not None
    assert record.name == "orders"
    assert records == {kept.job_id: record, damaged.job_id: None}
    await stores.graphs.remove(kept.job_id)
    assert list(await stores.graphs.records()) == [damaged.job_id]


async def test_a_shutdown_is_requested_once_and_completed_once(stores: Stores):
    # DISP-16, RUN-05: the record keeps the status that was requested first
    asked = await stores.shutdowns.ask(ApplicationStatus.SUCCEEDED, at=5)
    assert await stores.shutdowns.ask(ApplicationStatus.FAILED, at=6) == asked
    assert await stores.shutdowns.get() == asked
    await stores.shutdowns.complete(asked)
    await stores.shutdowns.complete(asked)
    over = await stores.shutdowns.get()
    assert over is not None
    assert (over.stage, over.status, over.nonce) == (ShutdownStage.OVER, asked.status, asked.nonce)


async def test_a_cluster_that_was_shut_down_before_can_be_shut_down_again(stores: Stores):
    first = await stores.shutdowns.ask(ApplicationStatus.SUCCEEDED, at=5)
    await stores.shutdowns.complete(first)
    second = await stores.shutdowns.ask(ApplicationStatus.FAILED, at=9)
    assert second.nonce != first.nonce
    assert await stores.shutdowns.get() == second
    await stores.shutdowns.forget()
    await stores.shutdowns.forget()
    assert await stores.shutdowns.get() is None


async def test_a_previous_leader_neither_completes_nor_forgets_a_shutdown(stores: Stores):
    """The request stays on record for the next leader (RUN-06)."""
    asked = await stores.shutdowns.ask(ApplicationStatus.SUCCEEDED, at=5)
    old = stores.shutdowns
    await seize_leadership(stores.coordinator, ids=stores.ids)
    for write in (old.complete(asked), old.forget()):
        with pytest.raises(LeadershipLost):
            await write
    assert await stores.shutdowns.get() == asked
