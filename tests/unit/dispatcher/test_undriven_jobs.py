"""For which attempts a leader vouches while nobody drives their job."""

import random

from stoker.core.ids import Ids, JobId
from stoker.dispatcher.undriven_jobs import UnledJobs
from stoker.ha.memory import MemoryCoordination
from stoker.testing.leadership import seize_leadership
from stoker.testing.virtual_time import run_virtual

ONE, TWO = JobId("1" * 32), JobId("2" * 32)


def test_it_vouches_for_all_until_masters_begin_and_for_none_when_it_does_not_lead() -> None:
    async def story() -> None:
        coordination = MemoryCoordination(session_timeout=4)
        session = coordination.session()
        leadership = await seize_leadership(session, ids=Ids(random.Random(1)))
        unled = UnledJobs()
        assert not unled.has(ONE)
        with unled.under(leadership):
            assert unled.has(ONE)
            unled.told_by(lambda job_id: job_id == TWO)
            assert not unled.has(ONE)
            assert unled.has(TWO)
            coordination.suspend(session)
            assert not unled.has(TWO), "somebody else may lead"
        assert not unled.has(TWO)
        coordination.resume(session)
        with unled.under(leadership):
            assert unled.has(ONE), "what an earlier leadership knew is forgotten"

    run_virtual(story)
