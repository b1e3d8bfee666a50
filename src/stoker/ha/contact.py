"""Waiting for contact with the coordinator."""

from stoker.core.errors import SessionExpired
from stoker.ha.coordinator import ConnectionState, Coordinator


async def wait_for_contact(coordinator: Coordinator) -> None:
    """Return while CONNECTED; SessionExpired when the session is over for good."""
    state = coordinator.state
    while state is ConnectionState.SUSPENDED:
        state = await coordinator.wait_for_state_other_than(state)
    if state is ConnectionState.LOST:
        raise SessionExpired("the coordinator's session has ended")
