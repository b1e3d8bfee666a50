"""The leaders of jobs that the resource manager knows."""

from datetime import timedelta

from stoker.core.ids import JobId, SessionId
from stoker.core.values import FencingToken
from stoker.resourcemanager.registrations import JobLeaders

JOB = JobId("1" * 32)
ONE = FencingToken(epoch=1, session=SessionId("a"))
TWO = FencingToken(epoch=1, session=SessionId("b"))


def leaders() -> JobLeaders:
    return JobLeaders(timedelta(seconds=300))


def test_only_the_newest_registration_of_a_job_leads() -> None:
    """The previous master of the job leads no longer (RM-15)."""
    known = leaders()
    known.set_leader(JOB, ONE)
    known.set_leader(JOB, TWO)
    assert known.is_leader(JOB, TWO)
    assert not known.is_leader(JOB, ONE)


def test_a_job_without_a_master_expires_after_the_timeout() -> None:
    """A forgotten job does not expire again (RM-14)."""
    known = leaders()
    known.set_leader(JOB, ONE)
    known.leader_lost(JOB, 10)
    assert not known.is_leader(JOB, ONE)
    assert known.expired(309) == []
    assert known.expired(310) == [JOB]
    known.forget(JOB)
    assert known.expired(1000) == []


def test_a_new_leader_cancels_the_timeout_and_a_second_loss_starts_another() -> None:
    known = leaders()
    known.set_leader(JOB, ONE)
    known.leader_lost(JOB, 10)
    known.set_leader(JOB, TWO)
    assert known.expired(1000) == []
    known.leader_lost(JOB, 1000)
    known.leader_lost(JOB, 1200)
    assert known.expired(1300) == [JOB]
