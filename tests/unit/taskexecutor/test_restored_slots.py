"""A restarted task executor and the slots of its previous instance (TM-22)."""

import asyncio
from pathlib import Path

from stoker.taskexecutor.slots import SavedSlot
from unit.fake_parts import JOB
from unit.taskexecutor.harness import SLOT, Harness, deployment, run_scenario

PREVIOUS = SavedSlot(index=0, job_id=JOB, allocation=SLOT)


def test_a_restarted_task_executor_registers_with_its_previous_slots_and_offers_them_again(
    tmp_path: Path,
) -> None:
    """The next task runs in such a slot (TM-22)."""

    async def scenario(harness: Harness) -> None:
        first, second = harness.manager.registrations[0].report.slots
        assert (first.job_id, first.allocation) == (JOB, SLOT)
        assert second.job_id is None
        async with harness.master_running() as master:
            await asyncio.sleep(2)
            assert master.offered == [SLOT]
            await harness.submit(deployment())
            await asyncio.sleep(3)
            assert len(master.outcomes) == 1

    run_scenario(tmp_path, scenario, saved={0: PREVIOUS})


def test_a_restored_slot_that_its_job_declines_is_free_at_once(tmp_path: Path) -> None:
    async def scenario(harness: Harness) -> None:
        async with harness.master_running() as master:
            master.accepts = False
            await asyncio.sleep(2)
            assert master.offered == [SLOT]
            assert not await harness.slot_is_taken()
            assert harness.saved == {}

    run_scenario(tmp_path, scenario, saved={0: PREVIOUS})


def test_a_restored_slot_of_a_job_that_is_gone_is_freed_after_the_timeout(tmp_path: Path) -> None:
    """Its record is removed (TM-11)."""

    async def scenario(harness: Harness) -> None:
        assert await harness.slot_is_taken()
        await asyncio.sleep(11)
        assert not await harness.slot_is_taken()
        assert harness.saved == {}

    run_scenario(tmp_path, scenario, saved={0: PREVIOUS})


def test_a_slot_is_recorded_while_it_belongs_to_a_job_and_not_after_an_orderly_end(
    tmp_path: Path,
) -> None:
    async def scenario(harness: Harness) -> None:
        async with harness.master_running():
            await harness.request_slot()
            assert harness.saved == {0: PREVIOUS}
            await harness.submit(deployment(seconds=500))
            await asyncio.sleep(1)
            assert harness.saved == {0: PREVIOUS}

    assert run_scenario(tmp_path, scenario).saved == {}
