"""Attached jobs are cancelled when their clients are gone, and only then."""

import asyncio
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import Unavailable
from stoker.core.ids import JobId
from stoker.dispatcher.attached_clients import AttachedClients, cancel_abandoned_jobs
from stoker.testing.virtual_time import run_virtual

JOB = JobId("a" * 32)


def test_only_a_job_with_a_silent_client_is_overdue() -> None:
    """The deadline of a heartbeat counts, not its time (DISP-29)."""
    clients = AttachedClients()
    assert clients.overdue({JOB: 10.0}, now=0) == []
    clients.heartbeat(JOB, deadline=15)
    assert clients.overdue({JOB: 10.0}, now=14) == []
    assert clients.overdue({JOB: 10.0}, now=15) == [JOB]


def test_a_new_leader_gives_every_client_the_full_timeout() -> None:
    """The timeout counts from when the new leader begins to watch (DISP-30)."""
    clients = AttachedClients()
    assert clients.overdue({JOB: 10.0}, now=1000) == []
    assert clients.overdue({JOB: 10.0}, now=1009) == []
    assert clients.overdue({JOB: 10.0}, now=1010) == [JOB]


def test_a_job_that_is_no_longer_live_is_forgotten() -> None:
    clients = AttachedClients()
    clients.heartbeat(JOB, deadline=5)
    assert clients.overdue({}, now=100) == []
    assert clients.overdue({JOB: 10.0}, now=100) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=30))
def test_a_client_that_reports_in_time_never_loses_its_job(
    events: list[tuple[bool, int]],
) -> None:
    """The job is overdue as soon as its timeout has passed since the last report (DISP-29)."""
    clients = AttachedClients()
    now = last = 0
    clients.overdue({JOB: 10.0}, now)
    for reports, passed in events:
        now += passed
        if reports:
            clients.heartbeat(JOB, now + 10)
            last = now
        assert (clients.overdue({JOB: 10.0}, now) == [JOB]) == (now - last >= 10)


class AttachedJob:
    """One attached job, whose first cancellation fails."""

    def __init__(self) -> None:
        self.cancels_at: list[float] = []

    def attached_jobs(self) -> Mapping[JobId, float]:
        return {JOB: 10.0} if len(self.cancels_at) < 2 else {}

    async def cancel_job(self, job_id: JobId) -> None:
        self.cancels_at.append(asyncio.get_running_loop().time())
        if len(self.cancels_at) == 1:
            raise Unavailable("not now")


def test_an_abandoned_job_is_cancelled_and_a_failed_cancellation_is_repeated() -> None:
    async def scenario() -> list[float]:
        job = AttachedJob()
        checks = asyncio.create_task(cancel_abandoned_jobs(AttachedClients(), job))
        await asyncio.sleep(60)
        checks.cancel()
        await asyncio.wait([checks])
        return job.cancels_at

    assert run_virtual(scenario) == [10.0, 11.0]
