"""Keeping attempts alive while no job master can: the other ways to renew a lease.

The first way, the answer of the job's master, is the job's link (`job_link.py`). Each renewal
counts from the moment at which the question was sent.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from stoker.core.errors import SessionExpired, StokerError, Unavailable
from stoker.core.ids import JobId
from stoker.gateways.leases import LeaseOptions
from stoker.gateways.master import MASTER, MasterGateway
from stoker.ha import keys
from stoker.ha.coordinator import ConnectionState, Coordinator
from stoker.ha.masters import MasterDirectory
from stoker.rpc.service import RpcService

log = logging.getLogger(__name__)

ANSWER_TIMEOUT = timedelta(seconds=5)
CHECKS_PER_LEASE = 8


@dataclass
class LeaseKeeper:
    rpc: RpcService
    coordinator: Coordinator
    masters: MasterDirectory
    options: LeaseOptions
    last_epoch: Callable[[], int | None]
    """Of the last leader whose commands were obeyed here."""
    first_expiry: Callable[[], float | None]
    """When the first lease of a running attempt ends; None when nothing runs."""
    renew: Callable[[float, Collection[JobId] | None], None]
    """Leases count from this moment: those of these jobs, or all."""
    jobs_expiring_before: Callable[[float], tuple[JobId, ...]]
    """Those with running attempts whose lease ends before this moment."""

    async def run(self) -> None:
        duration = self.options.duration.total_seconds()
        while True:
            await asyncio.sleep(duration / CHECKS_PER_LEASE)
            ends = self.first_expiry()
            now = asyncio.get_running_loop().time()
            # A lease that its master renews as it should never gets this old.
            if ends is not None and ends - now < duration / 2:
                await self._renew_without_job_master()

    async def _renew_without_job_master(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        if await self.is_leaderless():
            log.info("nobody leads: attempts go on")
            self.renew(asked_at, None)
        elif await self._failsafe():
            log.info("the coordinator is away and no master leads: attempts go on")
            self.renew(asked_at, None)
        else:
            await self._renew_undriven()

    async def _renew_undriven(self) -> None:
        """Of jobs that a new leader has not begun to drive, such as those in quarantine."""
        asked_at = asyncio.get_running_loop().time()
        jobs = self.jobs_expiring_before(asked_at + self.options.duration.total_seconds() / 2)
        answers = await asyncio.gather(
            *(self._undriven_jobs_of(address, jobs) for address in self.masters.known.values())
        )
        undriven = {job_id for answer in answers for job_id in answer}
        if undriven:
            log.info("nobody drives %s yet: attempts go on", ", ".join(sorted(undriven)))
            self.renew(asked_at, undriven)

    async def _undriven_jobs_of(self, address: str, jobs: tuple[JobId, ...]) -> tuple[JobId, ...]:
        try:
            master = await self.rpc.connect(
                f"{address}/{MASTER}", MasterGateway, timeout=ANSWER_TIMEOUT
            )
            return await master.undriven_jobs(jobs)
        except StokerError as error:
            log.info("%s does not say which jobs nobody drives yet: %s", address, error)
            return ()

    async def is_leaderless(self) -> bool:
        """The coordinator, read up to date, shows that the last leader is gone and none came.

        An election key is created together with the raise of its epoch, so that no key means: the
        session that raised the current epoch is over.
        """
        if self.coordinator.state is not ConnectionState.CONNECTED:
            return False
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT.total_seconds()):
                await self.coordinator.sync()
                return await self.coordinator.read(keys.ELECTION) is None
        except (Unavailable, SessionExpired, TimeoutError) as error:
            log.info("the coordinator does not say whether somebody leads: %s", error)
            return False

    async def _failsafe(self) -> bool:
        epoch = self.last_epoch()
        if self.coordinator.state is ConnectionState.CONNECTED or epoch is None:
            return False
        words = await asyncio.gather(
            *(self._vouches(address, epoch) for address in self.masters.known.values())
        )
        if not any(words):
            log.info("none of %d known masters vouches for epoch %d", len(words), epoch)
        return any(words)

    async def _vouches(self, address: str, epoch: int) -> bool:
        try:
            master = await self.rpc.connect(
                f"{address}/{MASTER}", MasterGateway, timeout=ANSWER_TIMEOUT
            )
            return await master.attempts_may_go_on(epoch)
        except StokerError as error:
            log.info("%s does not say whether attempts may go on: %s", address, error)
            return False


def earliest(moments: Iterable[float]) -> float | None:
    return min(moments, default=None)
