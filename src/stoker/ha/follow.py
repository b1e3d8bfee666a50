"""Following the coordinator: waiting for contact, and one loop for everything that is watched.

A watch fires once and says only that something may have changed. So whoever follows a key reads it
again and again, each time with a new watch. Two things can go wrong on the way, and both are
handled here once: contact is lost (wait until it is back, then synchronize, because an old answer
may hide a change that happened meanwhile), and a read fails (try again after a pause).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from stoker.aio.retry import Backoff
from stoker.core.errors import SessionExpired, Unavailable
from stoker.ha import keys
from stoker.ha.coordinator import ConnectionState, Coordinator, Watch

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(initial=timedelta(seconds=0.1), maximum=timedelta(seconds=5))
NO_EPOCH: Final = -1

ReadWithWatch = Callable[[Watch], Awaitable[None]]
"""Reads what is followed, sets the watch, and uses the answer."""


def session_surely_lives(coordinator: Coordinator) -> bool:
    """Whether less than a session timeout has passed since the last contact, in any state."""
    silence = asyncio.get_running_loop().time() - coordinator.last_contact
    return silence < coordinator.session_timeout


def has_contact(coordinator: Coordinator) -> bool:
    """Whether the state is CONNECTED, or SUSPENDED for a time that is tolerated."""
    if coordinator.state is ConnectionState.SUSPENDED:
        return coordinator.tolerates_suspension and session_surely_lives(coordinator)
    return coordinator.state is ConnectionState.CONNECTED


async def wait_until_connected(coordinator: Coordinator) -> None:
    """Return as soon as the state is CONNECTED; raise SessionExpired when it is LOST."""
    state = coordinator.state
    while state is ConnectionState.SUSPENDED:
        state = await coordinator.wait_for_state_other_than(state)
    if state is ConnectionState.LOST:
        raise SessionExpired("the session with the coordinator has ended")


async def follow(
    coordinator: Coordinator,
    read: ReadWithWatch,
    *,
    subject: str,
    wait_for_contact: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Call `read` now and after every change, until the coordinator's session is over.

    Raises SessionExpired then. `subject` names what is followed in the log. `wait_for_contact`
    replaces `wait_until_connected` for a follower that acts on the loss of contact itself.
    """
    failures = 0
    while True:
        if wait_for_contact is None:
            await wait_until_connected(coordinator)
        else:
            await wait_for_contact()
        try:
            await coordinator.sync()
            while coordinator.state is ConnectionState.CONNECTED:
                watch = Watch()
                await read(watch)
                failures = 0
                await watch.wait()
        except Unavailable as error:
            log.info("%s cannot be read: %s", subject, error)
            await asyncio.sleep(BACKOFF.delay(failures).total_seconds())
            failures += 1


class EpochFollower:
    """The newest epoch that this process knows of."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.known = NO_EPOCH
        """Never decreases, and stays while contact with the coordinator is lost."""

    async def run(self) -> None:
        """Follow the epoch until the coordinator's session is over."""
        await follow(self._coordinator, self._read, subject="the epoch")

    async def _read(self, watch: Watch) -> None:
        found = await self._coordinator.read(keys.EPOCH, watch=watch)
        if found is not None:
            self.known = max(self.known, found.version)
