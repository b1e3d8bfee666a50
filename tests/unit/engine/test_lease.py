"""How long a task may run without a renewal of its lease."""

import math
import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.lease import FOREVER, Lease, LeaseStep, LeaseThreads

MOMENTS = st.floats(min_value=0, max_value=1e6)
LEASES = st.builds(Lease, until=MOMENTS, margin=st.floats(min_value=0.1, max_value=100))
STEPS = (LeaseStep.END, LeaseStep.FORCE, LeaseStep.KILL)


@given(LEASES, MOMENTS)
def test_a_step_is_due_when_no_seconds_are_left_until_it(lease: Lease, now: float) -> None:
    due = [step for step in LeaseStep if lease.seconds_to(step, now) == 0]
    assert lease.due(now) is max(due)


@given(LEASES, MOMENTS)
def test_a_task_begins_to_end_one_margin_before_its_lease_expires(lease: Lease, now: float) -> None:
    begins, forced, killed = (lease.seconds_to(step, 0) for step in STEPS)
    assert begins <= forced <= killed == lease.until
    assert (lease.due(now) is LeaseStep.CONTINUE) == (now < lease.until - lease.margin)
    assert lease.due(lease.until) is LeaseStep.KILL


@given(LEASES, MOMENTS, MOMENTS)
def test_a_renewal_never_shortens_a_lease(lease: Lease, first: float, second: float) -> None:
    renewed = lease.renewed(first).renewed(second)
    assert renewed == lease.renewed(second).renewed(first)
    assert renewed.until == max(lease.until, first, second)
    assert renewed.margin == lease.margin


def test_without_a_lease_nothing_is_ever_due() -> None:
    assert FOREVER.due(1e12) is LeaseStep.CONTINUE
    assert FOREVER.seconds_to(LeaseStep.END, 1e12) == math.inf


def test_a_step_that_hangs_does_not_delay_later_steps() -> None:
    done = {step: threading.Event() for step in STEPS}
    released = threading.Event()

    def hang() -> None:
        done[LeaseStep.END].set()
        released.wait()

    steps = {
        LeaseStep.END: hang,
        LeaseStep.FORCE: done[LeaseStep.FORCE].set,
        LeaseStep.KILL: done[LeaseStep.KILL].set,
    }
    LeaseThreads(Lease(until=time.monotonic(), margin=1), steps).start()
    try:
        assert all(event.wait(60) for event in done.values())
    finally:
        released.set()


def test_renewing_a_lease_postpones_its_steps() -> None:
    watch = LeaseThreads(Lease(until=time.monotonic(), margin=1), {})
    assert watch.due is LeaseStep.KILL
    watch.renew(time.monotonic() + 3600)
    assert watch.due is LeaseStep.CONTINUE


def test_no_step_runs_after_the_task_has_ended() -> None:
    late = threading.Event()
    watch = LeaseThreads(Lease(until=time.monotonic() + 30, margin=0), {LeaseStep.KILL: late.set})
    watch.start()
    assert watch.stop()
    for waiting in threading.enumerate():
        if waiting.name == "lease-kill":
            waiting.join(60)
    assert not late.is_set()


def test_no_step_runs_in_a_thread_that_wakes_up_after_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("stoker.engine.lease.time", SimpleNamespace(monotonic=lambda: now))
    late = threading.Event()
    watch = LeaseThreads(Lease(until=30, margin=0), {LeaseStep.KILL: late.set})
    watch.start()
    with watch._changed:
        assert watch.stop()
        now = 31.0
    for waiting in threading.enumerate():
        if waiting.name == "lease-kill":
            waiting.join(60)
    assert not late.is_set()


def test_a_step_that_is_due_runs_although_the_task_has_ended() -> None:
    forced = threading.Event()
    watch = LeaseThreads(
        Lease(until=time.monotonic() - 1, margin=120), {LeaseStep.FORCE: forced.set}
    )
    assert not watch.stop()
    watch.start()
    assert forced.wait(60)
