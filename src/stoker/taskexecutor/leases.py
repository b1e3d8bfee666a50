"""Lease renewal without a job master.

An attempt must stop when its lease runs out, because a new attempt may then start elsewhere. Its
job master normally renews the lease (`job_link.py`). While no job master can answer, stopping every
attempt would turn a failover of the masters into an outage of all jobs. Attempts may therefore
continue as long as it is certain that they cannot have been replaced:

1. the coordinator, read up to date, shows that no master leads;
2. the coordinator is unreachable, and a master process vouches for the last known leadership;
3. a leader exists, and its process answers that no job master drives the job yet.

Each renewal counts from the moment at which the question was sent.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta

from stoker.core.errors import SessionExpired, StokerError, Unavailable
from stoker.core.ids import JobId
from stoker.gateways.leases import LeaseOptions
from stoker.gateways.master import MASTER, MasterGateway
from stoker.ha import keys
from stoker.ha.coordinator import ConnectionState, Coordinator
from stoker.ha.masters import MasterDirectory
from stoker.metrics.registry import Counter
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
    """Epoch of the last leader whose commands were obeyed here; None before the first."""
    first_expiry: Callable[[], float | None]
    """Loop time at which the first lease of a running attempt ends; None if nothing runs."""
    renew: Callable[[float, Collection[JobId] | None], None]
    """Renew the leases of these jobs, or of all jobs if None, from this loop time."""
    jobs_expiring_before: Callable[[float], tuple[JobId, ...]]
    """Jobs with a running attempt whose lease ends before this loop time."""
    renewals: Counter
    """Counts renewals by what allowed them."""

    async def run(self) -> None:
        duration = self.options.duration.total_seconds()
        while True:
            await asyncio.sleep(duration / CHECKS_PER_LEASE)
            ends = self.first_expiry()
            now = asyncio.get_running_loop().time()
            # A lease that its job master renews in time never gets this old.
            if ends is not None and ends - now < duration / 2:
                await self._renew_without_job_master()

    async def _renew_without_job_master(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        if await self._is_leaderless():
            log.info("no master leads; leases are renewed")
            self.renewals.increment("no_leader")
            self.renew(asked_at, None)
        elif await self._failsafe():
            log.info("the coordinator is unreachable and no later master leads; leases are renewed")
            self.renewals.increment("failsafe")
            self.renew(asked_at, None)
        else:
            await self._renew_undriven()

    async def _renew_undriven(self) -> None:
        """Renew for jobs that the leader does not drive yet, such as those in quarantine."""
        asked_at = asyncio.get_running_loop().time()
        jobs = self.jobs_expiring_before(asked_at + self.options.duration.total_seconds() / 2)
        answers = await asyncio.gather(
            *(self._undriven_jobs_of(address, jobs) for address in self.masters.known.values())
        )
        undriven = {job_id for answer in answers for job_id in answer}
        if undriven:
            log.info(
                "no job master drives %s yet; their leases are renewed", ", ".join(sorted(undriven))
            )
            self.renewals.increment("undriven")
            self.renew(asked_at, undriven)

    async def _undriven_jobs_of(self, address: str, jobs: tuple[JobId, ...]) -> tuple[JobId, ...]:
        try:
            master = await self.rpc.connect(
                f"{address}/{MASTER}", MasterGateway, timeout=ANSWER_TIMEOUT
            )
            return await master.undriven_jobs(jobs)
        except StokerError as error:
            log.info("%s did not answer which jobs are undriven: %s", address, error)
            return ()

    async def _is_leaderless(self) -> bool:
        """Whether the coordinator, read up to date, shows that the last leader has no successor.

        A leader creates the election key and raises the epoch in one transaction. Without a key,
        the session that raised the current epoch has therefore ended.
        """
        if self.coordinator.state is not ConnectionState.CONNECTED:
            return False
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT.total_seconds()):
                await self.coordinator.sync()
                return await self.coordinator.read(keys.ELECTION) is None
        except (Unavailable, SessionExpired, TimeoutError) as error:
            log.info("the coordinator did not answer whether a master leads: %s", error)
            return False

    async def _failsafe(self) -> bool:
        epoch = self.last_epoch()
        if self.coordinator.state is ConnectionState.CONNECTED or epoch is None:
            return False
        answers = await asyncio.gather(
            *(self._vouches(address, epoch) for address in self.masters.known.values())
        )
        if not any(answers):
            log.info("none of %d known masters vouches for epoch %d", len(answers), epoch)
        return any(answers)

    async def _vouches(self, address: str, epoch: int) -> bool:
        try:
            master = await self.rpc.connect(
                f"{address}/{MASTER}", MasterGateway, timeout=ANSWER_TIMEOUT
            )
            return await master.attempts_may_continue(epoch)
        except StokerError as error:
            log.info("%s did not answer whether attempts may continue: %s", address, error)
            return False
