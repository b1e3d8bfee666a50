"""Waiting for contact with the coordinator."""

import asyncio

from stoker.core.errors import SessionExpired
from stoker.ha.coordinator import ConnectionState, Coordinator


def lives_for_sure(coordinator: Coordinator) -> bool:
    """A session timeout has not passed since the last contact, whatever the state is now."""
    silence = asyncio.get_running_loop().time() - coordinator.last_contact
    return silence < coordinator.session_timeout


def is_in_touch(coordinator: Coordinator) -> bool:
    """CONNECTED, or SUSPENDED for a time that is tolerated."""
    if coordinator.state is ConnectionState.SUSPENDED:
        return coordinator.tolerates_suspension and lives_for_sure(coordinator)
    return coordinator.state is ConnectionState.CONNECTED


async def wait_for_contact(coordinator: Coordinator) -> None:
    """Return while CONNECTED; SessionExpired when the session is over for good."""
    state = coordinator.state
    while state is ConnectionState.SUSPENDED:
        state = await coordinator.wait_for_state_other_than(state)
    if state is ConnectionState.LOST:
        raise SessionExpired("the coordinator's session has ended")
