"""With which exit code the processes of a cluster that was shut down end."""

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
def test_only_a_cluster_that_ended_well_ends_its_processes_with_0(
    status: ApplicationStatus, code: int
) -> None:
    """ENTRY-04"""
    assert exit_code_of(status) == code


async def test_the_first_of_several_events_is_enough() -> None:
    one, two = asyncio.Event(), asyncio.Event()
    two.set()
    async with asyncio.timeout(5):
        await first_of(one, two)
