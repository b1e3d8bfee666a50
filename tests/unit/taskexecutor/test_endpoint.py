"""A real task executor between a resource manager and a job master that note everything (TM-*)."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from stoker.core.errors import FencingTokenMismatch, NotFound, Unavailable
from stoker.core.failpoints import armed
from stoker.core.ids import AttemptId, RegionId
from stoker.core.states import ExecutionState
from stoker.gateways.resourcemanager import Declined
from stoker.gateways.taskexecutor import SlotRequest
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.testing.virtual_time import run_virtual
from unit.fake_parts import JOB
from unit.taskexecutor.stage import ATTEMPT, SLOT, Stage, deployment, play


def test_it_registers_with_its_slots_and_leaves_when_it_stops(tmp_path: Path) -> None:
    """TM-01, TM-16"""

    async def story(stage: Stage) -> None:
        [registration] = stage.manager.registrations
        assert len(registration.report.slots) == 2
        assert registration.address.endswith("-life"), "an address names one life"

    assert play(tmp_path, story).manager.left == ["life"]


def test_requests_of_a_manager_at_which_it_is_not_registered_are_refused(tmp_path: Path) -> None:
    """TM-07"""

    async def story(stage: Stage) -> None:
        other = (await stage.lead("other")).token
        request = SlotRequest(job_id=JOB, allocation=SLOT, slot=0)
        with pytest.raises(FencingTokenMismatch):
            await stage.executor.request_slot(other, request)

    play(tmp_path, story)


def test_an_accepted_slot_runs_a_task_and_its_outcome_is_told_and_on_record(tmp_path: Path) -> None:
    """TM-08, TM-09, TM-17"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            assert master.offered == [SLOT]
            await stage.submit(deployment())
            token = stage.leadership.token
            beat = stage.executor.heartbeat_from_job_master
            assert await beat(token, JOB, (SLOT,)) == (ATTEMPT,)
            await asyncio.sleep(2)
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]
            assert await beat(token, JOB, (SLOT,)) == ()
            record = await OutcomeStore(stage.storage).read(JOB, RegionId("out"), ATTEMPT)
            assert record == master.outcomes[0]

    play(tmp_path, story)


def test_a_declined_slot_is_freed_and_reported_at_once(tmp_path: Path) -> None:
    """TM-09"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            master.accepts = False
            await stage.request_slot()
            assert not await stage.beat()
            assert stage.manager.reports[-1].slots[0].job_id is None

    play(tmp_path, story)


def test_a_slot_that_no_master_takes_is_freed_in_time(tmp_path: Path) -> None:
    """TM-11"""

    async def story(stage: Stage) -> None:
        await stage.request_slot()
        await asyncio.sleep(8)
        assert await stage.beat()
        await asyncio.sleep(3)
        assert not await stage.beat()

    play(tmp_path, story)


def test_a_deployment_is_refused_for_another_slot_or_another_master(tmp_path: Path) -> None:
    """TM-19"""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            with pytest.raises(NotFound, match="nothing of job"):
                await stage.submit(deployment())
            await stage.request_slot()
            stranger = (await stage.lead("other")).token
            late = stage.leadership.token
            await stage.submit(deployment())
            await stage.executor.cancel_task(stranger, JOB, ATTEMPT)
            with pytest.raises(FencingTokenMismatch):
                await stage.executor.submit_task(late, deployment(attempt=AttemptId("b" * 32)))

    play(tmp_path, story)


def test_the_same_deployment_again_runs_once_also_when_it_comes_late(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            await stage.submit(deployment())
            await stage.submit(deployment())
            with pytest.raises(Unavailable, match="cannot run a task now"):
                await stage.submit(deployment(attempt=AttemptId("b" * 32)))
            await asyncio.sleep(2)
            assert len(master.outcomes) == 1
            await stage.submit(deployment())
            await stage.executor.cancel_task(stage.leadership.token, JOB, AttemptId("c" * 32))
            await stage.submit(deployment(attempt=AttemptId("c" * 32)))
            await asyncio.sleep(2)

    assert len(play(tmp_path, story).history.attempts) == 1


def test_what_finished_is_told_when_it_is_on_record_while_it_is_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.testing.fake_engine._CLEARING_SECONDS", 60)

    async def story(stage: Stage) -> None:
        recorded = asyncio.Event()
        async with stage.master_running() as master:
            await stage.request_slot()
            with armed("outcomes.after-content", recorded.set):
                await stage.submit(deployment(seconds=1))
                await recorded.wait()
            assert master.outcomes == []
            await asyncio.sleep(1)
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]
            # Its slot takes the next one, and what is left of the first disturbs nobody.
            await stage.submit(deployment(attempt=AttemptId("b" * 32), seconds=1))
            await asyncio.sleep(2)
            assert [each.attempt for each in master.outcomes] == [ATTEMPT, "b" * 32]
            await asyncio.sleep(70)
            assert len(master.outcomes) == 2

    play(tmp_path, story)


def test_a_cancel_after_the_end_of_the_work_does_not_change_the_outcome(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        recorded = asyncio.Event()
        async with stage.master_running() as master:
            await stage.request_slot()
            with armed("outcomes.after-content", recorded.set):
                await stage.submit(deployment(seconds=1))
                await recorded.wait()
            await stage.executor.cancel_task(stage.leadership.token, JOB, ATTEMPT)
            await asyncio.sleep(1)
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]

    play(tmp_path, story)


def test_a_cancelled_task_tells_its_end_and_a_second_cancel_is_harmless(tmp_path: Path) -> None:
    """TM-20"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            await stage.submit(deployment(seconds=100))
            await asyncio.sleep(1)
            for _ in range(2):
                await stage.executor.cancel_task(stage.leadership.token, JOB, ATTEMPT)
            await asyncio.sleep(1)
            assert [each.state for each in master.outcomes] == [ExecutionState.CANCELED]

    play(tmp_path, story)


def test_a_task_that_waits_for_spark_is_cancelled_at_once_and_never_begins(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            waiting = deployment()
            graph = structs.replace(waiting.graph, configuration={"fake.start-seconds": "600"})
            await stage.submit(structs.replace(waiting, graph=graph))
            await asyncio.sleep(5)
            await stage.executor.cancel_task(stage.leadership.token, JOB, ATTEMPT)
            await asyncio.sleep(1)
            assert [outcome.state for outcome in master.outcomes] == [ExecutionState.CANCELED]
            assert not (stage.folder / "attempts" / ATTEMPT).exists()
            await asyncio.sleep(700)

    assert play(tmp_path, story).history.attempts == []


def test_an_attempt_that_its_master_does_not_know_is_cancelled(tmp_path: Path) -> None:
    """JM-14"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            master.knows = False
            await stage.submit(deployment(seconds=100))
            await asyncio.sleep(2)
            assert [each.state for each in master.outcomes] == [ExecutionState.CANCELED]

    play(tmp_path, story)


def test_it_keeps_its_attempt_when_the_master_goes_and_brings_it_to_the_next(
    tmp_path: Path,
) -> None:
    """TM-12 as this design has it, TM-13"""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            await stage.request_slot()
            await stage.submit(deployment(seconds=30))
            await asyncio.sleep(1)
        await asyncio.sleep(15)
        async with stage.master_running() as successor:
            await asyncio.sleep(2)
            [introduction] = successor.introductions
            assert [each.attempt for each in introduction.attempts] == [ATTEMPT]
            await asyncio.sleep(20)
            assert [each.state for each in successor.outcomes] == [ExecutionState.FINISHED]

    play(tmp_path, story)


def test_a_master_that_rejects_it_for_good_gets_nothing_more(tmp_path: Path) -> None:
    """TM-14"""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            master.declined = Declined(reason="wrong job", final=True)
            await stage.request_slot()
            assert not await stage.beat()

    play(tmp_path, story)


def test_a_lease_that_is_not_renewed_ends_the_attempt_in_time(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            master.renews = False
            await stage.submit(deployment(seconds=500))
            await asyncio.sleep(53)
            assert stage.history.attempts[0].ended is None
            await asyncio.sleep(7)
            ended = stage.history.attempts[0].ended
            assert ended is not None
            assert ended <= 60, "gone before a master could think of replacing it"

    play(tmp_path, story)


def test_the_next_master_is_asked_at_once_for_what_runs_and_later_where_nothing_does(
    tmp_path: Path,
) -> None:
    """A fail-over may have used up most of a lease; a registration without attempts begins one."""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            assert master.renewals == []
            await stage.submit(deployment(seconds=500))
            await asyncio.sleep(16)
            assert master.renewals == [(ATTEMPT,)]
        await asyncio.sleep(10)
        async with stage.master_running() as successor:
            await asyncio.sleep(2)
            assert successor.renewals == [(ATTEMPT,)]

    play(tmp_path, story)


def test_an_attempt_begins_under_a_lease_that_was_asked_for_not_one_of_its_own(
    tmp_path: Path,
) -> None:
    """A deployment that was long on its way must not run longer than its master knows."""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            await stage.request_slot()
            await asyncio.sleep(13)
            began = asyncio.get_running_loop().time()
            await stage.submit(deployment(seconds=500))
            stage.network.partition("executor", "master")
            await asyncio.sleep(100)
            span = stage.history.attempts[0]
            assert span.ended is not None
            assert span.ended - began < 60 - 13

    play(tmp_path, story)


def test_an_outcome_is_told_only_when_it_is_on_record(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            await stage.submit(deployment())
            await asyncio.sleep(0.5)
            stage.storage.go_away()
            await asyncio.sleep(10)
            assert master.outcomes == []
            stage.storage.come_back()
            await asyncio.sleep(2)
            assert len(master.outcomes) == 1

    play(tmp_path, story)


def test_one_bad_task_fails_alone(tmp_path: Path) -> None:
    """Design invariant 7: whatever it raises, the task executor lives on."""

    async def story(stage: Stage) -> None:
        async with stage.master_running() as master:
            await stage.request_slot()
            await stage.submit(deployment(region="unheard of"))
            await asyncio.sleep(2)
            assert [each.state for each in master.outcomes] == [ExecutionState.FAILED]
            assert await stage.beat()

    play(tmp_path, story)


def test_what_it_runs_has_ended_before_it_stops_answering(tmp_path: Path) -> None:
    """Who finds nobody at its address takes its attempts for dead."""

    async def story(stage: Stage) -> None:
        async with stage.master_running():
            await stage.request_slot()
            await stage.submit(deployment(seconds=500))
            await asyncio.sleep(1)

    stage = play(tmp_path, story)
    assert stage.history.attempts[0].ended is not None


def test_the_outcomes_of_what_it_ran_are_on_record_when_it_has_stopped(tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        async with stage.master_running():
            await stage.request_slot()
            await stage.submit(deployment(seconds=500))
            await asyncio.sleep(1)
        stage.storage.go_away()
        asyncio.get_running_loop().call_later(5, stage.storage.come_back)

    stage = play(tmp_path, story)
    assert (
        run_virtual(lambda: OutcomeStore(stage.storage).read(JOB, RegionId("out"), ATTEMPT))
        is not None
    )


def test_it_registers_again_after_a_disconnect_and_at_the_next_leader(tmp_path: Path) -> None:
    """TM-02, TM-05"""

    async def story(stage: Stage) -> None:
        await stage.executor.disconnect_resource_manager(stage.token, "test")
        await asyncio.sleep(2)
        assert len(stage.manager.registrations) == 2

    play(tmp_path, story)
