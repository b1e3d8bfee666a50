"""For which attempts a leader vouches while no job master drives their job."""

import random

from stoker.core.ids import Ids, JobId
from stoker.dispatcher.undriven_jobs import UndrivenJobs
from stoker.ha.memory import MemoryCoordination
from stoker.testing.leadership import seize_leadership
from stoker.testing.virtual_time import run_virtual

ONE, TWO = JobId("1" * 32), JobId("2" * 32)


def test_a_leader_vouches_for_all_jobs_until_job_masters_start_and_then_for_undriven_ones() -> None:
    async def scenario() -> None:
        coordination = MemoryCoordination(session_timeout=4)
        session = coordination.session()
        leadership = await seize_leadership(session, ids=Ids(random.Random(1)))
        undriven = UndrivenJobs()
        assert not undriven.includes(ONE)
        with undriven.enter(leadership):
            assert undriven.includes(ONE)
            undriven.decide_by(lambda job_id: job_id == TWO)
            assert not undriven.includes(ONE)
            assert undriven.includes(TWO)
            coordination.suspend(session)
            assert not undriven.includes(TWO), "another process may lead"
        assert not undriven.includes(TWO)
        coordination.resume(session)
        with undriven.enter(leadership):
            assert undriven.includes(ONE), "knowledge of an earlier leadership is dropped"

    run_virtual(scenario)
