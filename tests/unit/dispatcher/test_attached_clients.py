"""Jobs that are bound to a client end when it is gone, and only then."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.ids import JobId
from stoker.dispatcher.attached_clients import AttachedClients

JOB = JobId("a" * 32)


def test_a_job_whose_client_shows_itself_goes_on_and_one_that_is_silent_does_not() -> None:
    clients = AttachedClients()
    assert clients.overdue({JOB: 10.0}, now=0) == []
    clients.seen(JOB, until=15)
    assert clients.overdue({JOB: 10.0}, now=14) == []
    assert clients.overdue({JOB: 10.0}, now=15) == [JOB]


def test_a_new_leader_gives_every_client_its_whole_time() -> None:
    clients = AttachedClients()
    assert clients.overdue({JOB: 10.0}, now=1000) == []
    assert clients.overdue({JOB: 10.0}, now=1009) == []
    assert clients.overdue({JOB: 10.0}, now=1010) == [JOB]


def test_what_is_not_bound_any_more_is_forgotten() -> None:
    clients = AttachedClients()
    clients.seen(JOB, until=5)
    assert clients.overdue({}, now=100) == []
    assert clients.overdue({JOB: 10.0}, now=100) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=30))
def test_a_client_that_was_seen_within_its_time_never_loses_its_job(
    events: list[tuple[bool, int]],
) -> None:
    clients = AttachedClients()
    now = last = 0
    clients.overdue({JOB: 10.0}, now)
    for shows_itself, passed in events:
        now += passed
        if shows_itself:
            clients.seen(JOB, now + 10)
            last = now
        assert (clients.overdue({JOB: 10.0}, now) == [JOB]) == (now - last >= 10)
