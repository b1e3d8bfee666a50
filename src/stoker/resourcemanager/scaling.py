"""How many task executors to start, and which idle ones to release. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from stoker.core.ids import InstanceId
from stoker.resourcemanager.matching import Need
from stoker.resourcemanager.provider import ExecutorOffer

FAILURE_WINDOW_SECONDS = 60.0


def executors_to_start(
    needs: Iterable[Need],
    offer: ExecutorOffer | None,
    *,
    free: int,
    starting: int,
    room: int,
    spare: int,
) -> int:
    """Number of task executors to start for the missing slots and for `spare` ones in reserve.

    `needs` are those that the `free` slots could not meet. Task executors that are `starting`
    count as if they were there. Needs larger than any slot on offer start none.
    """
    if offer is None or offer.slots < 1 or room <= 0:
        return 0
    missing = sum(need.missing for need in needs if need.profile.fits_into(offer.profile))
    reserve = max(0, spare * offer.slots - free)
    count = math.ceil((missing + reserve) / offer.slots) - starting
    return max(0, min(count, room))


@dataclass(frozen=True, kw_only=True)
class IdleExecutor:
    instance: InstanceId
    slots: int
    since: float


def executors_to_release(
    idle: Sequence[IdleExecutor], *, free: int, reserve: int, now: float, timeout: timedelta
) -> list[InstanceId]:
    """Task executors idle for the timeout, longest first, as long as `reserve` slots stay free."""
    released: list[InstanceId] = []
    for executor in sorted(idle, key=lambda each: each.since):
        if now - executor.since < timeout.total_seconds():
            break
        if free - executor.slots >= reserve:
            free -= executor.slots
            released.append(executor.instance)
    return released


@dataclass(frozen=True, kw_only=True)
class StartFailures:
    """Delays starts after too many failures within a minute."""

    at: tuple[float, ...] = ()

    def with_failure(self, now: float) -> "StartFailures":
        recent = tuple(each for each in self.at if now - each < FAILURE_WINDOW_SECONDS)
        return StartFailures(at=(*recent, now))

    def wait(self, now: float, *, most: int, pause: timedelta) -> float:
        """Seconds until the next start is allowed."""
        recent = [each for each in self.at if now - each < FAILURE_WINDOW_SECONDS]
        if len(recent) <= most:
            return 0.0
        return max(0.0, recent[-1] + pause.total_seconds() - now)
