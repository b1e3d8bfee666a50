"""The job master's side of its registration at the resource manager."""

import asyncio
import logging
from datetime import timedelta

from stoker.core.demand import slots_together
from stoker.core.errors import StokerError
from stoker.core.results import Failure
from stoker.gateways.resourcemanager import (
    Declined,
    JobMasterRegistration,
    Prospects,
    ResourceManagerGateway,
    ResourceRequirements,
)
from stoker.ha.publication import LeaderAddress
from stoker.jobmaster.job import LiveJob

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
SOON_SECONDS = 0.1
"""A slot that is free comes within this time, and then nobody need know why there is none."""
ASK_WHY_SECONDS = 2.0
MOST_ASK_WHY_SECONDS = 10.0
"""A job that waits long asks less often: thousands may wait."""


async def keep_registered(job: LiveJob, address: str) -> None:
    """Register at each leading resource manager and declare to it what the job needs now."""
    while True:
        leader = await job.services.resource_manager.wait_for_leader()
        try:
            await _serve(job, address, leader)
        except StokerError as error:
            log.info("job %s: resource manager: %s", job.job_id, error)
        await asyncio.sleep(RETRY_SECONDS)


async def _serve(job: LiveJob, address: str, leader: LeaderAddress) -> None:
    # The resource manager is at home in this very process.
    manager = job.services.rpc.reach(leader.address, ResourceManagerGateway, token=leader.token)
    declared = job.needs.value
    answer = await manager.register_job_master(
        JobMasterRegistration(
            job_id=job.job_id,
            token=job.token,
            address=address,
            requirements=_requirements(job, declared),
        )
    )
    if isinstance(answer, Declined):
        log.warning("job %s: registration declined: %s", job.job_id, answer.reason)
        return
    job.resource_manager = manager
    pause = ASK_WHY_SECONDS
    while job.services.resource_manager.leader == leader:
        if job.graph.lacks_slots and not await _next_occasion(job, declared, SOON_SECONDS):
            _note(job, await manager.prospects(job.job_id))
        changed = await _next_occasion(job, declared, pause)
        pause = ASK_WHY_SECONDS if changed else min(pause * 1.5, MOST_ASK_WHY_SECONDS)
        declared = job.needs.value
        await manager.declare_requirements(_requirements(job, declared))


def _requirements(job: LiveJob, needs: tuple[int, int]) -> ResourceRequirements:
    return ResourceRequirements(
        job_id=job.job_id,
        token=job.token,
        slots=needs[0],
        held=needs[1],
        together=slots_together(job.graph.graph),
        priority=job.graph.graph.priority,
        profile=job.graph.graph.profile,
    )


def _note(job: LiveJob, prospects: Prospects | None) -> None:
    job.waiting = prospects.words if prospects else None
    job.note_reach(prospects is None or prospects.within_reach)


async def take_leave(job: LiveJob) -> None:
    """Tell the resource manager that the job has ended, so that it forgets its needs."""
    if job.resource_manager is None:
        return
    try:
        await job.resource_manager.job_master_leaves(job.job_id, job.token, job.graph.status)
    except StokerError as error:
        log.info("job %s: the resource manager was not told of its end: %s", job.job_id, error)


async def _next_occasion(job: LiveJob, declared: tuple[int, int], pause: float) -> bool:
    """Whether the needs changed; if not, the leader may have, or it is time to ask again."""
    try:
        async with asyncio.timeout(pause):
            await job.needs.wait_for_change(declared)
    except TimeoutError:
        return False
    return True


async def fail_when_starved(job: LiveJob) -> None:
    """A job that can get no slot at all for too long fails, and says what it lacked (POOL-06).

    One whose slots exist and are taken by others waits for its turn, as long as that takes.
    """
    patience: timedelta = job.services.options.slot_request_timeout
    while True:
        since = await job.hopeless_since.wait_until(lambda since: since is not None)
        assert since is not None
        try:
            async with asyncio.timeout_at(since + patience.total_seconds()):
                await job.hopeless_since.wait_for_change(since)
        except TimeoutError:
            job.act(job.graph.fail(_no_slot(job, patience), job.now))
            return


def _no_slot(job: LiveJob, patience: timedelta) -> Failure:
    reason = job.waiting or "the resource manager did not answer"
    return Failure(
        error="NoSlotAvailable",
        message=f"no slot within {patience.total_seconds():.0f} s (slot.request.timeout): {reason}",
        labels={"cause": "resources"},
    )
