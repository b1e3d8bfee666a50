"""The exit codes of processes whose cluster was shut down."""

import asyncio

import pytest

from stoker.core.states import ApplicationStatus
from stoker.processes.shutdown import exit_code_of, first_of


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


async def test_the_first_of_several_events_is_enough() -> None:
    one, two = asyncio.Event(), asyncio.Event()
    two.set()
    async with asyncio.timeout(5):
        await first_of(one, two)
