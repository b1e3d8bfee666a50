"""How a process ends: with which exit code, and within which time."""

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from stoker.core.states import ApplicationStatus
from stoker.processes.shutdown import FORCED, ending_in_time, exit_code_of, first_of

HANGING = """
import time
from datetime import timedelta
from stoker.processes.shutdown import ending_in_time

with ending_in_time(timedelta(milliseconds=50)) as begin_to_end:
    begin_to_end()
    time.sleep(600)
"""


def test_a_process_whose_shutdown_hangs_is_ended_by_force() -> None:
    """A hanging resource must not keep the process alive (ENTRY-02, ENTRY-05)."""
    run = subprocess.run(
        [sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == FORCED
    assert run.stdout == ""
    assert "most recent call first" in run.stderr, "the stack trace shows where the process hung"


def test_a_process_that_ends_in_time_leaves_no_thread_behind() -> None:
    """The timer of the forced end is cancelled too (ENTRY-05)."""
    before = threading.active_count()
    with ending_in_time(timedelta(hours=1)) as begin_to_end:
        begin_to_end()
        begin_to_end()
        timers = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
        assert len(timers) == 1
    timers[0].join(30)
    assert threading.active_count() == before


def test_before_the_shutdown_begins_there_is_no_time_limit() -> None:
    before = threading.active_count()
    with ending_in_time(timedelta(0)):
        assert threading.active_count() == before


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (ApplicationStatus.SUCCEEDED, 0),
        (ApplicationStatus.CANCELED, 0),
        (ApplicationStatus.FAILED, 1),
        (ApplicationStatus.UNKNOWN, 1),
    ],
)
def test_processes_exit_with_0_only_after_a_complete_shutdown(
    status: ApplicationStatus, code: int
) -> None:
    """Any other end is visible in the exit code (ENTRY-04)."""
    assert exit_code_of(status) == code


async def test_a_wait_for_several_events_ends_with_the_first() -> None:
    one, two = asyncio.Event(), asyncio.Event()
    two.set()
    async with asyncio.timeout(5):
        await first_of(one, two)
