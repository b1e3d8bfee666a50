"""A real task executor between a fake resource manager and a fake job master."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from stoker.core.errors import FencingTokenMismatch, NotFound, Unavailable
from stoker.core.failpoints import armed
from stoker.core.graph import FormatRead, Source
from stoker.core.ids import AttemptId, RegionId, SessionId
from stoker.core.secrets import MASK
from stoker.core.states import ExecutionState
from stoker.core.values import FencingToken
from stoker.gateways.resourcemanager import Declined
from stoker.gateways.taskexecutor import MOVED, SlotRequest
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.testing.virtual_time import run_virtual
from unit.fake_parts import JOB
from unit.taskexecutor.harness import ATTEMPT, SLOT, Harness, deployment, run_scenario


def test_a_task_executor_registers_with_its_slots_and_deregisters_when_it_stops(
    tmp_path: Path,
) -> None:
    """Its address names one instance (TM-01)."""

    async def scenario(harness: Harness) -> None:
        [registration] = harness.manager.registrations
        assert len(registration.report.slots) == 2
        assert registration.address.endswith("-life"), "an address names one instance"

    assert run_scenario(tmp_path, scenario).manager.left == ["life"]


def test_requests_of_a_resource_manager_without_registration_are_refused(tmp_path: Path) -> None:
    """Only the resource manager where it is registered may command it (TM-07)."""

    async def scenario(harness: Harness) -> None:
        other = (await harness.lead("other")).token
        request = SlotRequest(job_id=JOB, allocation=SLOT, slot=0)
        with pytest.raises(FencingTokenMismatch):
            await harness.executor.request_slot(other, request)

    run_scenario(tmp_path, scenario)


def test_an_accepted_slot_runs_a_task_whose_outcome_is_recorded_and_reported(
    tmp_path: Path,
) -> None:
    """The record and the report are equal (TM-08, TM-09, TM-17)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            assert master.offered == [SLOT]
            await harness.submit(deployment())
            token = harness.leadership.token
            beat = harness.executor.heartbeat_from_job_master
            assert await beat(token, JOB, (SLOT,)) == (ATTEMPT,)
            await asyncio.sleep(2)
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]
            assert await beat(token, JOB, (SLOT,)) == ()
            record = await OutcomeStore(harness.storage).read(JOB, RegionId("out"), ATTEMPT)
            assert record == master.outcomes[0]

    run_scenario(tmp_path, scenario)


def test_a_declined_slot_is_freed_and_reported_at_once(tmp_path: Path) -> None:
    """The resource manager learns that it is free (TM-09)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            master.accepts = False
            await harness.request_slot()
            assert not await harness.slot_is_taken()
            assert harness.manager.reports[-1].slots[0].job_id is None

    run_scenario(tmp_path, scenario)


def test_a_slot_that_no_job_master_accepts_is_freed_after_the_timeout(tmp_path: Path) -> None:
    """The heartbeats report the slot as taken, and then as free (TM-11, TM-16)."""

    async def scenario(harness: Harness) -> None:
        await harness.request_slot()
        await asyncio.sleep(8)
        assert await harness.slot_is_taken()
        await asyncio.sleep(3)
        assert not await harness.slot_is_taken()

    run_scenario(tmp_path, scenario)


def test_a_deployment_is_refused_for_another_slot_or_another_master(tmp_path: Path) -> None:
    """A previous job master may not deploy either (TM-19)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running():
            with pytest.raises(NotFound, match="nothing of job"):
                await harness.submit(deployment())
            await harness.request_slot()
            late = harness.leadership.token
            await harness.submit(deployment())
        async with harness.master_running():
            await asyncio.sleep(1)
            await harness.executor.cancel_task(harness.leadership.token, JOB, ATTEMPT)
            with pytest.raises(FencingTokenMismatch):
                await harness.executor.submit_task(late, deployment(attempt=AttemptId("b" * 32)))

    run_scenario(tmp_path, scenario)


def test_a_master_that_the_coordinator_does_not_name_is_refused_whatever_its_epoch(
    tmp_path: Path,
) -> None:
    """Anybody can claim an epoch. The true master is obeyed as before."""

    async def scenario(harness: Harness) -> None:
        claimed = FencingToken(epoch=2**60, session=SessionId("stranger"))
        await harness.request_slot()
        with pytest.raises(FencingTokenMismatch):
            await harness.executor.cancel_task(claimed, JOB, ATTEMPT)
        async with harness.master_running():
            await asyncio.sleep(1)
            await harness.submit(deployment())
            for command in (
                harness.executor.cancel_task(claimed, JOB, ATTEMPT),
                harness.executor.submit_task(claimed, deployment(attempt=AttemptId("b" * 32))),
            ):
                with pytest.raises(FencingTokenMismatch):
                    await command
            await harness.executor.cancel_task(harness.leadership.token, JOB, ATTEMPT)

    run_scenario(tmp_path, scenario)


def test_a_repeated_deployment_runs_once_even_if_it_comes_late(tmp_path: Path) -> None:
    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            await harness.submit(deployment())
            await harness.submit(deployment())
            with pytest.raises(Unavailable, match="cannot run a task now"):
                await harness.submit(deployment(attempt=AttemptId("b" * 32)))
            await asyncio.sleep(2)
            assert len(master.outcomes) == 1
            await harness.submit(deployment())
            await harness.executor.cancel_task(harness.leadership.token, JOB, AttemptId("c" * 32))
            await harness.submit(deployment(attempt=AttemptId("c" * 32)))
            await asyncio.sleep(2)

    assert len(run_scenario(tmp_path, scenario).history.attempts) == 1


def test_a_recorded_outcome_is_reported_while_the_engine_still_cleans_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.testing.fake_engine._CLEARING_SECONDS", 60)

    async def scenario(harness: Harness) -> None:
        recorded = asyncio.Event()
        async with harness.master_running() as master:
            await harness.request_slot()
            with armed("outcomes.after-content", recorded.set):
                await harness.submit(deployment(seconds=1))
                await recorded.wait()
            assert master.outcomes == []
            await asyncio.sleep(1)
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]
            # The slot accepts the next task; the remains of the first do not disturb it.
            await harness.submit(deployment(attempt=AttemptId("b" * 32), seconds=1))
            await asyncio.sleep(2)
            assert [each.attempt for each in master.outcomes] == [ATTEMPT, "b" * 32]
            await asyncio.sleep(70)
            assert len(master.outcomes) == 2

    run_scenario(tmp_path, scenario)


def test_a_cancellation_after_the_work_has_ended_does_not_change_the_outcome(
    tmp_path: Path,
) -> None:
    async def scenario(harness: Harness) -> None:
        recorded = asyncio.Event()
        async with harness.master_running() as master:
            await harness.request_slot()
            with armed("outcomes.after-content", recorded.set):
                await harness.submit(deployment(seconds=1))
                await recorded.wait()
            await harness.executor.cancel_task(harness.leadership.token, JOB, ATTEMPT)
            await asyncio.sleep(1)
            assert [each.state for each in master.outcomes] == [ExecutionState.FINISHED]

    run_scenario(tmp_path, scenario)


def test_a_cancelled_task_reports_its_end_and_a_second_cancellation_is_harmless(
    tmp_path: Path,
) -> None:
    """The end is reported once (TM-20)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            await harness.submit(deployment(seconds=100))
            await asyncio.sleep(1)
            for _ in range(2):
                await harness.executor.cancel_task(harness.leadership.token, JOB, ATTEMPT)
            await asyncio.sleep(1)
            assert [each.state for each in master.outcomes] == [ExecutionState.CANCELED]

    run_scenario(tmp_path, scenario)


def test_a_task_that_waits_for_spark_is_cancelled_at_once_and_never_starts(tmp_path: Path) -> None:
    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            waiting = deployment()
            graph = structs.replace(waiting.graph, configuration={"fake.start-seconds": "600"})
            await harness.submit(structs.replace(waiting, graph=graph))
            await asyncio.sleep(5)
            await harness.executor.cancel_task(harness.leadership.token, JOB, ATTEMPT)
            await asyncio.sleep(1)
            assert [outcome.state for outcome in master.outcomes] == [ExecutionState.CANCELED]
            assert not (harness.folder / "attempts" / ATTEMPT).exists()
            await asyncio.sleep(700)

    assert run_scenario(tmp_path, scenario).history.attempts == []


def test_an_attempt_that_its_master_does_not_know_is_cancelled(tmp_path: Path) -> None:
    """The job master says so when it answers a report (JM-14)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            master.knows = False
            await harness.submit(deployment(seconds=100))
            await asyncio.sleep(2)
            assert [each.state for each in master.outcomes] == [ExecutionState.CANCELED]

    run_scenario(tmp_path, scenario)


def test_an_attempt_survives_the_loss_of_its_master_and_is_reported_to_the_next(
    tmp_path: Path,
) -> None:
    """The next one learns of it by the introduction (TM-12, TM-13)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running():
            await harness.request_slot()
            await harness.submit(deployment(seconds=30))
            await asyncio.sleep(1)
        await asyncio.sleep(15)
        async with harness.master_running() as successor:
            await asyncio.sleep(2)
            [introduction] = successor.introductions
            assert [each.attempt for each in introduction.attempts] == [ATTEMPT]
            await asyncio.sleep(20)
            assert [each.state for each in successor.outcomes] == [ExecutionState.FINISHED]

    run_scenario(tmp_path, scenario)


def test_after_a_final_rejection_everything_of_the_job_is_given_up(tmp_path: Path) -> None:
    """Its slot is free again (TM-14)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            master.declined = Declined(reason="wrong job", final=True)
            await harness.request_slot()
            assert not await harness.slot_is_taken()

    run_scenario(tmp_path, scenario)


def test_an_attempt_ends_before_a_lease_that_is_not_renewed_runs_out(tmp_path: Path) -> None:
    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            master.renews = False
            await harness.submit(deployment(seconds=500))
            await asyncio.sleep(53)
            assert harness.history.attempts[0].ended is None
            await asyncio.sleep(7)
            ended = harness.history.attempts[0].ended
            assert ended is not None
            assert ended <= 60, "the attempt ended before a master could replace it"

    run_scenario(tmp_path, scenario)


def test_the_next_master_is_asked_for_a_lease_at_once_only_if_an_attempt_runs(
    tmp_path: Path,
) -> None:
    """A failover may have used most of a lease; a registration without attempts starts one."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            assert master.renewals == []
            await harness.submit(deployment(seconds=500))
            await asyncio.sleep(16)
            assert master.renewals == [(ATTEMPT,)]
        await asyncio.sleep(10)
        async with harness.master_running() as successor:
            await asyncio.sleep(2)
            assert successor.renewals == [(ATTEMPT,)]

    run_scenario(tmp_path, scenario)


def test_an_attempt_starts_under_the_lease_last_requested_and_not_under_a_new_one(
    tmp_path: Path,
) -> None:
    """A slow deployment must not outlive the lease that its master knows."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running():
            await harness.request_slot()
            await asyncio.sleep(13)
            began = asyncio.get_running_loop().time()
            await harness.submit(deployment(seconds=500))
            harness.network.partition("executor", "master")
            await asyncio.sleep(100)
            span = harness.history.attempts[0]
            assert span.ended is not None
            assert span.ended - began < 60 - 13

    run_scenario(tmp_path, scenario)


def test_an_outcome_is_reported_only_after_it_is_recorded(tmp_path: Path) -> None:
    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            await harness.submit(deployment())
            await asyncio.sleep(0.5)
            harness.storage.go_away()
            await asyncio.sleep(10)
            assert master.outcomes == []
            harness.storage.come_back()
            await asyncio.sleep(2)
            assert len(master.outcomes) == 1

    run_scenario(tmp_path, scenario)


def test_a_task_that_raises_fails_alone(tmp_path: Path) -> None:
    """The task executor survives whatever the task raises (design invariant 7)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            await harness.submit(deployment(region="unheard of"))
            await asyncio.sleep(2)
            assert [each.state for each in master.outcomes] == [ExecutionState.FAILED]
            assert await harness.slot_is_taken()

    run_scenario(tmp_path, scenario)


def test_a_failure_quotes_no_secret_of_a_source(tmp_path: Path) -> None:
    """Neither in its record nor in what the job master hears (REST-16)."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            await harness.request_slot()
            task = deployment(region="hunter2")
            read = FormatRead(format="jdbc", options={"password": "hunter2"})
            vertices = (Source(name="orders", read=read), *task.graph.vertices)
            graph = structs.replace(task.graph, vertices=vertices)
            await harness.submit(structs.replace(task, graph=graph))
            await asyncio.sleep(2)
            (outcome,) = master.outcomes
            assert outcome.failure is not None
            assert "hunter2" not in outcome.failure.message
            assert MASK in outcome.failure.message

    run_scenario(tmp_path, scenario)


def test_tasks_have_ended_when_the_task_executor_has_stopped(tmp_path: Path) -> None:
    """An address that does not answer makes its attempts count as dead."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running():
            await harness.request_slot()
            await harness.submit(deployment(seconds=500))
            await asyncio.sleep(1)

    harness = run_scenario(tmp_path, scenario)
    assert harness.history.attempts[0].ended is not None


def test_a_task_that_a_drain_moves_still_moves_when_the_task_executor_is_stopped(
    tmp_path: Path,
) -> None:
    """The end of the task must not count as a failure of its job."""

    async def scenario(harness: Harness) -> None:
        async with harness.master_running():
            await harness.request_slot()
            task = deployment(seconds=500)
            slow = {**task.graph.configuration, "fake.cancel-seconds": "5"}
            graph = structs.replace(task.graph, configuration=slow)
            await harness.submit(structs.replace(task, graph=graph))
            await asyncio.sleep(1)
            await harness.executor.drain(harness.token, 0)

    harness = run_scenario(tmp_path, scenario)
    outcome = run_virtual(lambda: OutcomeStore(harness.storage).read(JOB, RegionId("out"), ATTEMPT))
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.labels == {"cause": MOVED}


def test_outcomes_are_recorded_when_the_task_executor_has_stopped(tmp_path: Path) -> None:
    async def scenario(harness: Harness) -> None:
        async with harness.master_running():
            await harness.request_slot()
            await harness.submit(deployment(seconds=500))
            await asyncio.sleep(1)
        harness.storage.go_away()
        asyncio.get_running_loop().call_later(5, harness.storage.come_back)

    harness = run_scenario(tmp_path, scenario)
    assert (
        run_virtual(lambda: OutcomeStore(harness.storage).read(JOB, RegionId("out"), ATTEMPT))
        is not None
    )


def test_a_task_executor_registers_again_after_a_disconnect(tmp_path: Path) -> None:
    """The resource manager had told it to (TM-05)."""

    async def scenario(harness: Harness) -> None:
        await harness.executor.disconnect_resource_manager(harness.token, "test")
        await asyncio.sleep(2)
        assert len(harness.manager.registrations) == 2

    run_scenario(tmp_path, scenario)
