"""The stores when the storage or the coordinator fails midway, on virtual time."""

import asyncio
import errno
import functools
import inspect
import random
from collections.abc import Awaitable, Callable

import pytest

from builders import build_details, build_graph
from stoker.core.errors import ConnectionLost, CoordinatorUnavailable, StorageUnavailable
from stoker.core.failpoints import FAILPOINTS, armed
from stoker.core.graph import JobType
from stoker.core.ids import AttemptId, Ids, InstanceId, JobId, RegionId, ResourceId
from stoker.core.results import AttemptOutcome, JobResult
from stoker.core.states import ExecutionState, JobStatus
from stoker.ha.leadership import Leadership
from stoker.ha.memory import Loss, MemoryCoordination
from stoker.ha.stores.attempts import AttemptRecord, AttemptStore
from stoker.ha.stores.cancellations import CancellationStore
from stoker.ha.stores.job_graphs import AlreadyAccepted, JobGraphStore, Stored, StoredJob
from stoker.ha.stores.job_results import JobResultStore
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.storage.memory import MemoryStorage
from stoker.testing.leadership import seize_leadership
from stoker.testing.virtual_time import run_virtual

JOB = JobId("a" * 32)
GRAPH = build_graph(job_id=JOB, name="orders", idempotency_key="key")
RESULT = JobResult(
    job_id=JOB,
    name="orders",
    job_type=JobType.BATCH,
    status=JobStatus.FINISHED,
    start=1,
    end=2,
)
DETAILS = build_details(JobStatus.FINISHED, job_id=JOB, name="orders", start=1)
ATTEMPT = AttemptRecord(
    job_id=JOB,
    region=RegionId("out"),
    attempt=AttemptId("1"),
    number=1,
    task_executor=ResourceId("t"),
    instance=InstanceId("i"),
    address="here",
)


class Harness:
    """A coordinator and a storage, which outlive masters, and the stores of the leading master."""

    def __init__(self) -> None:
        self.coordination = MemoryCoordination()
        self.session = self.coordination.session()
        self.storage = MemoryStorage()
        self.ids = Ids(random.Random(5))
        self.leadership: Leadership

    async def next_leader(self) -> None:
        self.session = self.coordination.session()
        self.leadership = await seize_leadership(self.session, ids=self.ids)
        self.graphs = JobGraphStore(self.leadership, self.storage, self.ids)
        self.results = JobResultStore(self.leadership, self.storage, self.ids)
        self.cancellations = CancellationStore(self.leadership, self.ids)
        self.attempts = AttemptStore(self.leadership)
        self.outcomes = OutcomeStore(self.storage)

    def lose_next_commit(self, loss: Loss, seconds: float = 3) -> None:
        """Lose contact at the next commit and regain it after some seconds."""
        self.coordination.lose_next_commit(self.session, loss)
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self.coordination.heal, self.session)


def with_harness(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**arguments: object) -> None:
        async def prepared() -> None:
            harness = Harness()
            await harness.next_leader()
            await test(harness, **arguments)

        run_virtual(prepared)

    # pytest fills in all parameters but the first.
    parameters = list(inspect.signature(test).parameters.values())[1:]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


@with_harness
async def test_a_write_that_was_applied_though_contact_was_lost_is_recognized(harness: Harness):
    """The store reports success to its caller (STORE-10, X-STORE-07)."""
    harness.lose_next_commit(Loss.AFTER_APPLYING)
    assert isinstance(await harness.graphs.put(GRAPH, submitted_at=1), Stored)
    harness.lose_next_commit(Loss.AFTER_APPLYING)
    await harness.results.create_dirty(RESULT, DETAILS)
    harness.lose_next_commit(Loss.AFTER_APPLYING)
    await harness.results.mark_clean(JOB)
    harness.lose_next_commit(Loss.AFTER_APPLYING)
    await harness.cancellations.cancel(JOB, at=1)
    harness.lose_next_commit(Loss.AFTER_APPLYING)
    await harness.attempts.put(ATTEMPT)
    assert len(await harness.graphs.read_all()) == 1
    assert await harness.results.details(JOB) == DETAILS
    assert set(await harness.cancellations.all()) == {JOB}
    assert await harness.attempts.of_job(JOB) == [ATTEMPT]


@with_harness
async def test_a_write_that_was_definitely_not_applied_leaves_no_content(harness: Harness):
    """The content without a pointer is deleted at once (STORE-10)."""
    harness.lose_next_commit(Loss.BEFORE_APPLYING)
    with pytest.raises(CoordinatorUnavailable, match="was not written; try again"):
        await harness.graphs.put(GRAPH, submitted_at=1)
    harness.lose_next_commit(Loss.BEFORE_APPLYING)
    with pytest.raises(CoordinatorUnavailable):
        await harness.results.create_dirty(RESULT, DETAILS)
    assert harness.storage.files == {}
    assert await harness.graphs.read_all() == []


@with_harness
async def test_content_is_kept_while_its_pointer_may_exist(harness: Harness):
    """The session ended before the outcome of the write could be read (STORE-10)."""
    harness.coordination.lose_next_commit(harness.session, Loss.AFTER_APPLYING)
    writing = asyncio.ensure_future(harness.graphs.put(GRAPH, submitted_at=1))
    await asyncio.sleep(1)
    harness.coordination.expire(harness.session)
    with pytest.raises(ConnectionLost):
        await writing
    await harness.next_leader()
    [job] = await harness.graphs.read_all()
    assert isinstance(job, StoredJob)
    assert isinstance(await harness.graphs.put(GRAPH, submitted_at=2), AlreadyAccepted)


@with_harness
async def test_a_full_disk_accepts_no_job(harness: Harness):
    harness.storage.fail_next("write", errno.ENOSPC)
    with pytest.raises(StorageUnavailable, match="disk is full"):
        await harness.graphs.put(GRAPH, submitted_at=1)
    assert await harness.graphs.read_all() == []
    assert isinstance(await harness.graphs.put(GRAPH, submitted_at=1), Stored)


@with_harness
async def test_a_store_that_cannot_be_read_is_not_an_empty_one(harness: Harness):
    await harness.graphs.put(GRAPH, submitted_at=1)
    harness.storage.go_away()
    with pytest.raises(StorageUnavailable):
        await harness.graphs.read_all()
    harness.storage.come_back()
    harness.coordination.suspend(harness.session)
    for reading in (harness.graphs.read_all(), harness.results.all(), harness.cancellations.all()):
        with pytest.raises(CoordinatorUnavailable):
            await reading


@with_harness
async def test_one_file_that_cannot_be_read_harms_no_other_job(harness: Harness):
    """The job whose file failed is listed with the reason (design invariant 7)."""
    await harness.graphs.put(GRAPH, submitted_at=1)
    other = build_graph(job_id=JobId("b" * 32), name="other")
    await harness.graphs.put(other, submitted_at=1)
    harness.storage.fail_next("read")
    first, second = await harness.graphs.read_all()
    assert "Input/output error" in getattr(first, "reason", "")
    assert isinstance(second, StoredJob)


class Crash(BaseException):
    """Stands for the end of the process: the stores must not handle it as a failure."""


def crash() -> None:
    raise Crash


async def whole_life_of_a_job(harness: Harness) -> None:
    """Idempotent, like recovery: each step reads the current state first."""
    if await harness.results.get(JOB) is None:
        await harness.graphs.put(GRAPH, submitted_at=1)
        await harness.cancellations.cancel(JOB, at=2)
        await harness.attempts.put(ATTEMPT)
        await harness.outcomes.write(
            AttemptOutcome(
                job_id=JOB,
                region=ATTEMPT.region,
                attempt=ATTEMPT.attempt,
                state=ExecutionState.CANCELED,
                at=3,
            )
        )
        await harness.results.create_dirty(RESULT, DETAILS)
    await harness.graphs.remove(JOB)
    await harness.results.mark_clean(JOB)


STORES = ("attempts.", "cancellations.", "job-graphs.", "job-results.", "outcomes.")
STORE_FAILPOINTS = sorted(name for name in FAILPOINTS if name.startswith(STORES))


@pytest.mark.parametrize("store", STORES)
def test_a_crash_is_tested_in_every_store(store: str):
    assert any(name.startswith(store) for name in STORE_FAILPOINTS)


@pytest.mark.parametrize("name", [n for n in STORE_FAILPOINTS if "pruning" not in n])
@with_harness
async def test_a_crash_at_any_failpoint_is_recovered_by_the_next_leader(
    harness: Harness, name: str
):
    """Only the result and the idempotency key remain (design invariants 1, 2 and 6)."""
    with armed(name, crash), pytest.raises(Crash):
        await whole_life_of_a_job(harness)
    await harness.next_leader()
    await whole_life_of_a_job(harness)
    record = await harness.results.get(JOB)
    assert record is not None
    assert not record.dirty
    assert record.idempotency_key == "key"
    assert await harness.graphs.read_all() == []
    assert harness.coordination.all_keys() == [
        "epoch",
        next(key for key in harness.coordination.all_keys() if key.startswith("idempotency/")),
        f"results/{JOB}",
    ]
    orphans = set(harness.storage.files) - {record.pointer}
    # Content without a record is all that a crash may leave; the sweep removes the content.
    assert orphans == set() or name == "job-results.before-record"


@pytest.mark.parametrize("name", [n for n in STORE_FAILPOINTS if "pruning" in n])
@with_harness
async def test_a_crash_while_pruning_leaves_no_partial_record(harness: Harness, name: str):
    await whole_life_of_a_job(harness)
    with armed(name, crash), pytest.raises(Crash):
        await harness.results.prune(5, None, 0)
    await harness.next_leader()
    await harness.results.prune(5, None, 0)
    assert harness.coordination.all_keys() == ["epoch"]
