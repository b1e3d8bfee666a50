"""The life cycle of a leading dispatcher and its effect on jobs."""

import asyncio

import pytest

from builders import virtual, wait_until_quiet
from stoker.core.errors import (
    CoordinatorUnavailable,
    CorruptContent,
    DuplicateJob,
    JobAlreadyEnded,
    StokerError,
    StorageUnavailable,
)
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.ha import keys
from stoker.ha.record import decode_record
from stoker.ha.stores.cancellations import CancellationStore
from stoker.ha.stores.job_results import JobResultStore, ResultRecord
from stoker.testing.leadership import seize_leadership
from unit.dispatcher.dispatching import Master, World, new_world


async def start_leader(world: World) -> Master:
    """Start a master that leads and serves, if no other leads."""
    master = world.master()
    await wait_until_quiet()
    return master


async def start_leader_without_storage(world: World) -> tuple[Master, JobId]:
    """Start a leader that cannot recover the job of the previous one before the storage is back."""
    first = await start_leader(world)
    job_id = await submit(world)
    await first.stop()
    world.storage.go_away()
    return world.master(), job_id


async def submit(world: World, graph: JobGraph | None = None) -> JobId:
    answer = await (await world.dispatcher()).submit_job(graph or world.graph())
    await wait_until_quiet()
    return answer.job_id


async def result_of(world: World, job_id: JobId) -> ResultRecord | None:
    found = await world.observer.read(keys.result(job_id))
    return decode_record(found.value, ResultRecord, "result") if found else None


async def has_record(world: World, job_id: JobId) -> bool:
    return await world.observer.read(keys.job(job_id)) is not None


@virtual
async def test_a_dispatcher_publishes_its_address_only_after_recovery() -> None:
    """Clients never see a job list that is incomplete (RUN-01, RUN-07)."""
    async with new_world() as world:
        second, job_id = await start_leader_without_storage(world)
        await asyncio.sleep(30)
        assert second.election.is_leading
        assert await world.published() is None
        world.storage.come_back()
        await asyncio.sleep(20)
        leader = await world.published()
        assert leader is not None
        assert leader.process == second.name
        assert await (await world.dispatcher()).job_status(job_id) is JobStatus.RUNNING


@virtual
async def test_a_dispatcher_that_loses_leadership_during_recovery_is_never_published() -> None:
    """The loss of leadership cancels the recovery (RUN-02, RUN-10)."""
    async with new_world() as world:
        late, _ = await start_leader_without_storage(world)
        await asyncio.sleep(5)
        world.coordination.suspend(late.session)
        await asyncio.sleep(20)
        world.storage.come_back()
        world.coordination.resume(late.session)
        await asyncio.sleep(20)
        assert await world.published() is None
        assert late.jobs.started == []


@virtual
async def test_a_leader_that_is_closed_during_recovery_starts_no_job() -> None:
    """The next leader recovers the jobs (RUN-10)."""
    async with new_world() as world:
        second, _ = await start_leader_without_storage(world)
        await asyncio.sleep(5)
        await second.stop()
        world.storage.come_back()
        await asyncio.sleep(20)
        assert second.jobs.started == []
        assert await world.published() is None


@virtual
async def test_a_revoked_dispatcher_stops_its_jobs_and_keeps_their_records() -> None:
    """A successor needs the records (RUN-03, DISP-14, DISP-18, CLEAN-02, CLEAN-09, STORE-06)."""
    async with new_world() as world:
        master = await start_leader(world)
        jobs = [await submit(world) for _ in range(3)]
        master.jobs.seconds_to_stop = 3
        files = dict(world.storage.files)
        world.coordination.suspend(master.session)
        await asyncio.sleep(2)
        assert master.jobs.stopped == []
        await asyncio.sleep(2)
        assert sorted(master.jobs.stopped) == sorted(jobs)
        for job_id in jobs:
            assert await has_record(world, job_id)
            assert await result_of(world, job_id) is None
        assert world.storage.files == files


@virtual
async def test_a_term_begins_only_after_the_previous_one_has_ended_completely() -> None:
    """This holds when leadership changes several times (RUN-04, JMR-07, DISP-18, JM-12)."""
    async with new_world() as world:
        master = await start_leader(world)
        job_id = await submit(world)
        master.jobs.seconds_to_stop = 8
        for _ in range(3):
            world.coordination.suspend(master.session)
            await asyncio.sleep(1)
            world.coordination.resume(master.session)
            await asyncio.sleep(1)
        assert len(master.jobs.started) == 1
        assert master.jobs.stopped == []
        await asyncio.sleep(4)
        assert master.jobs.stopped == [job_id]
        assert len(master.jobs.started) == 2, (
            "leadership grants that ended before the master could lead are skipped"
        )
        assert master.errors == []


@virtual
async def test_a_closing_dispatcher_answers_no_calls_while_its_jobs_stop() -> None:
    """Answers about these jobs could be outdated (RUN-11)."""
    async with new_world() as world:
        master = await start_leader(world)
        await submit(world)
        dispatcher = await world.dispatcher()
        master.jobs.seconds_to_stop = 5
        stopping = asyncio.ensure_future(master.stop())
        await asyncio.sleep(1)
        with pytest.raises(StokerError):
            await dispatcher.jobs_since(None, 0)
        assert master.jobs.stopped == []
        await stopping
        assert len(master.jobs.stopped) == 1


@virtual
async def test_an_end_that_comes_after_the_loss_of_leadership_does_not_count() -> None:
    """The next leader decides about the job (JMR-04)."""
    async with new_world() as world:
        master = await start_leader(world)
        job_id = await submit(world)
        await seize_leadership(world.observer, ids=world.ids)
        master.jobs.last.finish()
        await asyncio.sleep(30)
        assert await result_of(world, job_id) is None
        assert await has_record(world, job_id)
        assert len(master.jobs.started) == 2, "the master leads again and runs the recorded job"
        master.jobs.last.finish(JobStatus.CANCELED)
        await asyncio.sleep(5)
        record = await result_of(world, job_id)
        assert record is not None
        assert record.result.status is JobStatus.CANCELED


@virtual
async def test_an_end_on_record_is_visible_while_the_job_master_is_still_closing() -> None:
    async with new_world() as world:
        master = await start_leader(world)
        job_id = await submit(world)
        dispatcher = await world.dispatcher()
        waiting = asyncio.ensure_future(
            dispatcher.wait_for_change(job_id, (JobStatus.CREATED, JobStatus.RUNNING), 60)
        )
        before = await dispatcher.jobs_since(None, 0)
        master.jobs.seconds_to_stop = 8
        await asyncio.sleep(1)
        assert not waiting.done(), "RUNNING is one of the known states"
        master.jobs.last.finish()
        await asyncio.sleep(1)
        assert waiting.done()
        assert await waiting is JobStatus.FINISHED
        result = await dispatcher.job_result(job_id)
        assert result is not None
        assert result.status is JobStatus.FINISHED
        news = await dispatcher.jobs_since(before.leader, before.revision, before.live_revision)
        assert news.live_gone == (job_id,)
        assert [job.status for job in news.ended] == [JobStatus.FINISHED]
        assert master.jobs.stopped == []
        assert await has_record(world, job_id), "clean-up waits for the job master to stop"
        await asyncio.sleep(10)
        assert master.jobs.stopped == [job_id]
        assert not await has_record(world, job_id)


@virtual
async def test_a_job_master_that_breaks_after_the_end_is_on_record_is_not_restarted() -> None:
    async with new_world() as world:
        master = await start_leader(world)
        job_id = await submit(world)
        master.jobs.fails_at_exit = True
        master.jobs.last.finish()
        await asyncio.sleep(60)
        assert len(master.jobs.started) == 1
        assert await (await world.dispatcher()).job_status(job_id) is JobStatus.FINISHED
        assert not await has_record(world, job_id)
        assert master.errors == []


@virtual
async def test_nothing_is_cleaned_up_without_a_recorded_result() -> None:
    """A job that did not end on record must stay recoverable (CLEAN-05, STORE-13)."""
    async with new_world() as world:
        master = await start_leader(world)
        job_id = await submit(world)
        files = dict(world.storage.files)
        world.storage.go_away()
        master.jobs.last.finish()
        await asyncio.sleep(20)
        assert world.storage.files == files
        assert await has_record(world, job_id)
        assert not (await (await world.dispatcher()).job_status(job_id)).globally_terminal
        world.storage.come_back()
        await asyncio.sleep(60)
        master.jobs.last.finish()
        await asyncio.sleep(5)
        assert await (await world.dispatcher()).job_status(job_id) is JobStatus.FINISHED
        assert not await has_record(world, job_id)
        assert master.errors == []


@virtual
async def test_a_result_that_cannot_be_marked_clean_is_left_to_the_next_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The result stays dirty, and the next leader cleans up again (CLEAN-06, RUN-09)."""
    mark_clean = JobResultStore.mark_clean

    async def refuse(self: JobResultStore, job_id: JobId) -> None:
        raise CoordinatorUnavailable("not now")

    async with new_world() as world:
        master = await start_leader(world)
        job_id = await submit(world)
        monkeypatch.setattr(JobResultStore, "mark_clean", refuse)
        master.jobs.last.finish()
        await asyncio.sleep(5)
        assert master.errors == []
        record = await result_of(world, job_id)
        assert record is not None
        assert record.dirty
        monkeypatch.setattr(JobResultStore, "mark_clean", mark_clean)
        await master.stop()
        second = world.master()
        await asyncio.sleep(5)
        record = await result_of(world, job_id)
        assert record is not None
        assert not record.dirty
        assert second.jobs.started == []


@virtual
async def test_a_job_that_is_only_cleaned_up_shows_its_recorded_end_at_once() -> None:
    """The clean-up is still stuck then (CLEAN-15, CLEAN-07, CLEAN-14, JMR-02, DISP-13)."""
    async with new_world() as world:
        master = await start_leader(world)
        graph = world.graph()
        job_id = await submit(world, graph)
        for _ in range(100):
            world.storage.fail_next("delete_tree")
        master.jobs.last.finish()
        await asyncio.sleep(5)
        await master.stop()
        second = world.master()
        await asyncio.sleep(1)
        dispatcher = await world.dispatcher()
        assert await dispatcher.job_status(job_id) is JobStatus.FINISHED
        with pytest.raises(JobAlreadyEnded):
            await dispatcher.cancel_job(job_id)
        other = world.graph()
        with pytest.raises(DuplicateJob) as refused:
            await dispatcher.submit_job(
                JobGraph(job_id=job_id, name="again", vertices=other.vertices)
            )
        assert refused.value.facts["globally_terminated"] is True
        record = await result_of(world, job_id)
        assert record is not None
        assert record.dirty
        assert second.jobs.started == []
        assert any(path.startswith(f"jobs/{job_id}") for path in world.storage.files)


@virtual
async def test_a_job_without_a_recorded_end_is_left_to_the_next_leader() -> None:
    """Outcome records let the next leader reach the same decision (CLEAN-04)."""
    async with new_world() as world:
        master = await start_leader(world)
        job_id = await submit(world)
        master.jobs.last.finish()
        await master.stop()
        assert await has_record(world, job_id)
        second = world.master()
        await asyncio.sleep(5)
        assert second.jobs.last.to_run.graph.job_id == job_id
        assert second.jobs.last.to_run.recovered
        second.jobs.last.finish()
        await asyncio.sleep(5)
        assert await (await world.dispatcher()).job_status(job_id) is JobStatus.FINISHED
        assert not await has_record(world, job_id)


@virtual
async def test_every_job_is_listed_once_whether_live_or_ended() -> None:
    """One answer lists live and ended jobs (DISP-21)."""
    async with new_world() as world:
        master = await start_leader(world)
        first, *others = [await submit(world) for _ in range(5)]
        master.jobs.started[0].finish()
        await wait_until_quiet()
        known = await (await world.dispatcher()).jobs_since(None, 0)
        assert [job.job_id for job in known.ended] == [first]
        assert sorted(job.job_id for job in known.live) == sorted(others)


@virtual
async def test_a_job_without_a_master_is_initializing_and_can_be_cancelled() -> None:
    """The job master has not started yet (JMR-08, JMR-09, JMR-10, DISP-05, DISP-07)."""
    async with new_world() as world:
        master = await start_leader(world)
        master.jobs.hold = asyncio.Event()
        job_id = await submit(world)
        dispatcher = await world.dispatcher()
        details = await dispatcher.job_details(job_id)
        assert details.status is JobStatus.INITIALIZING
        assert (details.job_id, details.name) == (job_id, "orders")
        assert details.timestamps == {JobStatus.INITIALIZING: details.start}
        await dispatcher.cancel_job(job_id)
        assert await dispatcher.job_status(job_id) is JobStatus.CANCELLING
        master.jobs.hold.set()
        await wait_until_quiet()
        assert master.jobs.last.cancels == 1
        assert await dispatcher.job_status(job_id) is JobStatus.CANCELED


@virtual
async def test_a_cancellation_before_the_job_master_exists_outlives_the_leader() -> None:
    """Every leader carries out an acknowledged cancellation (JMR-09, FAULT-05)."""
    async with new_world() as world:
        master = await start_leader(world)
        master.jobs.hold = asyncio.Event()
        job_id = await submit(world)
        await (await world.dispatcher()).cancel_job(job_id)
        await master.stop()
        second = await start_leader(world)
        assert second.jobs.last.to_run.cancel_wanted
        assert await (await world.dispatcher()).job_status(job_id) is JobStatus.RUNNING


@virtual
async def test_a_job_that_goes_to_quarantine_while_it_is_cancelled_is_cancelled_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An acknowledged cancellation counts, wherever the job is by then."""
    record = CancellationStore.cancel
    asked, damaged = asyncio.Event(), asyncio.Event()

    async def record_slowly(self: CancellationStore, job_id: JobId, *, at: int) -> None:
        asked.set()
        await damaged.wait()
        await record(self, job_id, at=at)

    monkeypatch.setattr(CancellationStore, "cancel", record_slowly)
    async with new_world() as world:
        master = world.master()
        await wait_until_quiet()
        job_id = await submit(world)
        dispatcher = await world.dispatcher()
        cancelling = asyncio.ensure_future(dispatcher.cancel_job(job_id))
        await asked.wait()
        master.jobs.last.break_with(CorruptContent("a record is damaged"))
        # On virtual time, and before the job is loaded again for the first time.
        await wait_until_quiet(0.5)
        assert len(await dispatcher.quarantined()) == 1
        damaged.set()
        await cancelling
        [quarantined] = await dispatcher.quarantined()
        assert quarantined.cancel_wanted


@virtual
async def test_a_submission_is_not_acknowledged_when_the_storage_fails() -> None:
    """The client gets the error of the storage, and no job master starts (DISP-01)."""
    async with new_world() as world:
        master = await start_leader(world)
        world.storage.go_away()
        with pytest.raises(StorageUnavailable):
            await (await world.dispatcher()).submit_job(world.graph())
        assert master.jobs.started == []
