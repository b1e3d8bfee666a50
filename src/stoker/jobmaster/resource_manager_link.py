"""The job master's link to the resource manager: declares the slots that the job needs.

A job whose slots are held by others waits for its turn without a limit. A job whose slots do not
exist would wait for ever; it fails after a timeout with the reason.
"""

import asyncio
import logging
from datetime import timedelta

from stoker.core.errors import StokerError
from stoker.core.regions import slots_together
from stoker.core.results import Failure
from stoker.gateways.resourcemanager import (
    Declined,
    JobMasterRegistration,
    ResourceManagerGateway,
    ResourceRequirements,
    WaitReason,
)
from stoker.ha.publication import LeaderAddress
from stoker.jobmaster.job import JobDriver

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
SOON_SECONDS = 0.1
"""A free slot arrives within this time, so the wait reason need not be requested before."""
REASON_PAUSE_SECONDS = 2.0
MAX_REASON_PAUSE_SECONDS = 10.0
"""A job that waits long asks less often, because thousands may wait."""


async def keep_registered(job: JobDriver, address: str) -> None:
    """Register at each leading resource manager and declare to it what the job needs now."""
    while True:
        leader = await job.services.resource_manager.wait_for_leader()
        try:
            await _stay_registered(job, address, leader)
        except StokerError as error:
            log.info("resource manager: %s", error)
        await asyncio.sleep(RETRY_SECONDS)


async def _stay_registered(job: JobDriver, address: str, leader: LeaderAddress) -> None:
    # The resource manager runs in this process, so no handshake is needed.
    manager = job.services.rpc.reach(leader.address, ResourceManagerGateway, token=leader.token)
    declared = job.slot_needs.value
    answer = await manager.register_job_master(
        JobMasterRegistration(
            job_id=job.job_id,
            token=job.token,
            address=address,
            requirements=_requirements(job, declared),
        )
    )
    if isinstance(answer, Declined):
        log.warning("registration declined: %s", answer.reason)
        return
    job.resource_manager = manager
    pause = REASON_PAUSE_SECONDS
    while job.services.resource_manager.leader == leader:
        if job.graph.lacks_slots and not await _wait_for_change(job, declared, SOON_SECONDS):
            _store_wait_reason(job, await manager.wait_reason(job.job_id))
        changed = await _wait_for_change(job, declared, pause)
        pause = REASON_PAUSE_SECONDS if changed else min(pause * 1.5, MAX_REASON_PAUSE_SECONDS)
        declared = job.slot_needs.value
        await manager.declare_requirements(_requirements(job, declared))


def _requirements(job: JobDriver, needs: tuple[int, int]) -> ResourceRequirements:
    return ResourceRequirements(
        job_id=job.job_id,
        token=job.token,
        slots=needs[0],
        held=needs[1],
        together=slots_together(job.graph.graph),
        priority=job.graph.graph.priority,
        profile=job.graph.graph.profile,
    )


def _store_wait_reason(job: JobDriver, reason: WaitReason | None) -> None:
    job.wait_reason = reason.text if reason else None
    job.note_slots_obtainable(reason is None or reason.slots_obtainable)


async def deregister(job: JobDriver) -> None:
    """Let the resource manager forget the needs of a job that has ended."""
    if job.resource_manager is None:
        return
    try:
        await job.resource_manager.job_master_leaves(job.job_id, job.token, job.graph.status)
    except StokerError as error:
        log.info("could not deregister from the resource manager: %s", error)


async def _wait_for_change(job: JobDriver, declared: tuple[int, int], pause: float) -> bool:
    """Whether the needs changed within the pause."""
    try:
        async with asyncio.timeout(pause):
            await job.slot_needs.wait_for_change(declared)
    except TimeoutError:
        return False
    return True


async def fail_when_starved(job: JobDriver) -> None:
    """Fail a job that could obtain no slot for the timeout, with the reason.

    A job whose slots exist and are held by others waits for its turn without a limit.
    """
    patience: timedelta = job.services.options.slot_request_timeout
    while True:
        since = await job.starved_since.wait_until(lambda since: since is not None)
        assert since is not None
        try:
            async with asyncio.timeout_at(since + patience.total_seconds()):
                await job.starved_since.wait_for_change(since)
        except TimeoutError:
            job.act(job.graph.fail(_no_slot(job, patience), job.now))
            return


def _no_slot(job: JobDriver, patience: timedelta) -> Failure:
    reason = job.wait_reason or "the resource manager did not answer"
    return Failure(
        error="NoSlotAvailable",
        message=f"no slot within {patience.total_seconds():.0f} s (slot.request.timeout): {reason}",
        labels={"cause": "resources"},
    )
