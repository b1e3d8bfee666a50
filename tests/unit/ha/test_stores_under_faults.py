"""What the stores do when storage or coordinator fail midway, on virtual time."""

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


class Setting:
    """What outlives a master, and the stores of the one that leads."""

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
        self.wishes = CancellationStore(self.leadership, self.ids)
        self.attempts = AttemptStore(self.leadership)
        self.outcomes = OutcomeStore(self.storage)

    def lose_next_commit(self, loss: Loss, seconds: float = 3) -> None:
        """Contact comes back after a while."""
        self.coordination.lose_next_commit(self.session, loss)
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self.coordination.heal, self.session)


def with_setting(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**arguments: object) -> None:
        async def prepared() -> None:
            setting = Setting()
            await setting.next_leader()
            await test(setting, **arguments)

        run_virtual(prepared)

    # pytest fills in all parameters but the first.
    parameters = list(inspect.signature(test).parameters.values())[1:]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


@with_setting
async def test_a_write_that_was_applied_though_contact_was_lost_is_recognised(setting: Setting):
    """STORE-10, X-STORE-07"""
    setting.lose_next_commit(Loss.AFTER_APPLYING)
    assert isinstance(await setting.graphs.put(GRAPH, submitted_at=1), Stored)
    setting.lose_next_commit(Loss.AFTER_APPLYING)
    await setting.results.create_dirty(RESULT, DETAILS)
    setting.lose_next_commit(Loss.AFTER_APPLYING)
    await setting.results.mark_clean(JOB)
    setting.lose_next_commit(Loss.AFTER_APPLYING)
    await setting.wishes.cancel(JOB, at=1)
    setting.lose_next_commit(Loss.AFTER_APPLYING)
    await setting.attempts.put(ATTEMPT)
    assert len(await setting.graphs.read_all()) == 1
    assert await setting.results.details(JOB) == DETAILS
    assert set(await setting.wishes.all()) == {JOB}
    assert await setting.attempts.of_job(JOB) == [ATTEMPT]


@with_setting
async def test_a_write_that_was_surely_not_applied_leaves_no_content(setting: Setting):
    """The content without a pointer is deleted at once (STORE-10)."""
    setting.lose_next_commit(Loss.BEFORE_APPLYING)
    with pytest.raises(CoordinatorUnavailable, match="was not written; try again"):
        await setting.graphs.put(GRAPH, submitted_at=1)
    setting.lose_next_commit(Loss.BEFORE_APPLYING)
    with pytest.raises(CoordinatorUnavailable):
        await setting.results.create_dirty(RESULT, DETAILS)
    assert setting.storage.files == {}
    assert await setting.graphs.read_all() == []


@with_setting
async def test_content_is_kept_while_its_pointer_may_exist(setting: Setting):
    """The session ended before the outcome of the write could be read (STORE-10)."""
    setting.coordination.lose_next_commit(setting.session, Loss.AFTER_APPLYING)
    writing = asyncio.ensure_future(setting.graphs.put(GRAPH, submitted_at=1))
    await asyncio.sleep(1)
    setting.coordination.expire(setting.session)
    with pytest.raises(ConnectionLost):
        await writing
    await setting.next_leader()
    [job] = await setting.graphs.read_all()
    assert isinstance(job, StoredJob)
    assert isinstance(await setting.graphs.put(GRAPH, submitted_at=2), AlreadyAccepted)


@with_setting
async def test_a_full_disk_accepts_no_job(setting: Setting):
    setting.storage.fail_next("write", errno.ENOSPC)
    with pytest.raises(StorageUnavailable, match="disk is full"):
        await setting.graphs.put(GRAPH, submitted_at=1)
    assert await setting.graphs.read_all() == []
    assert isinstance(await setting.graphs.put(GRAPH, submitted_at=1), Stored)


@with_setting
async def test_a_store_that_cannot_be_read_is_not_an_empty_one(setting: Setting):
    await setting.graphs.put(GRAPH, submitted_at=1)
    setting.storage.go_away()
    with pytest.raises(StorageUnavailable):
        await setting.graphs.read_all()
    setting.storage.come_back()
    setting.coordination.suspend(setting.session)
    for reading in (setting.graphs.read_all(), setting.results.all(), setting.wishes.all()):
        with pytest.raises(CoordinatorUnavailable):
            await reading


@with_setting
async def test_one_file_that_cannot_be_read_harms_no_other_job(setting: Setting):
    """Design invariant 7"""
    await setting.graphs.put(GRAPH, submitted_at=1)
    other = build_graph(job_id=JobId("b" * 32), name="other")
    await setting.graphs.put(other, submitted_at=1)
    setting.storage.fail_next("read")
    first, second = await setting.graphs.read_all()
    assert "Input/output error" in getattr(first, "reason", "")
    assert isinstance(second, StoredJob)


class Crash(BaseException):
    """Stands for the end of the process: the stores must not handle it as a failure."""


def crash() -> None:
    raise Crash


async def whole_life_of_a_job(setting: Setting) -> None:
    """Idempotent, as recovery is: each step reads the present state first."""
    if await setting.results.get(JOB) is None:
        await setting.graphs.put(GRAPH, submitted_at=1)
        await setting.wishes.cancel(JOB, at=2)
        await setting.attempts.put(ATTEMPT)
        await setting.outcomes.write(
            AttemptOutcome(
                job_id=JOB,
                region=ATTEMPT.region,
                attempt=ATTEMPT.attempt,
                state=ExecutionState.CANCELED,
                at=3,
            )
        )
        await setting.results.create_dirty(RESULT, DETAILS)
    await setting.graphs.remove(JOB)
    await setting.results.mark_clean(JOB)


STORES = ("attempts.", "job-graphs.", "job-results.", "outcomes.", "wishes.")
STORE_FAILPOINTS = sorted(name for name in FAILPOINTS if name.startswith(STORES))


@pytest.mark.parametrize("name", [n for n in STORE_FAILPOINTS if "pruning" not in n])
@with_setting
async def test_a_crash_at_any_failpoint_is_recovered_by_the_next_leader(
    setting: Setting, name: str
):
    """Design invariants 1, 2 and 6"""
    with armed(name, crash), pytest.raises(Crash):
        await whole_life_of_a_job(setting)
    await setting.next_leader()
    await whole_life_of_a_job(setting)
    record = await setting.results.get(JOB)
    assert record is not None
    assert not record.dirty
    assert record.idempotency_key == "key"
    assert await setting.graphs.read_all() == []
    assert setting.coordination.all_keys() == [
        "epoch",
        next(key for key in setting.coordination.all_keys() if key.startswith("idempotency/")),
        f"results/{JOB}",
    ]
    orphans = set(setting.storage.files) - {record.pointer}
    # A content without a record is the only thing a crash may leave; the sweep removes it.
    assert orphans == set() or name == "job-results.before-record"


@pytest.mark.parametrize("name", [n for n in STORE_FAILPOINTS if "pruning" in n])
@with_setting
async def test_a_crash_while_pruning_leaves_no_partial_record(setting: Setting, name: str):
    await whole_life_of_a_job(setting)
    with armed(name, crash), pytest.raises(Crash):
        await setting.results.prune(5, None, 0)
    await setting.next_leader()
    await setting.results.prune(5, None, 0)
    assert setting.coordination.all_keys() == ["epoch"]
