"""When a dispatcher lives: records are read, recovery is decided, then it serves (RUN-07)."""

import asyncio
import logging
from datetime import timedelta

from stoker.aio.retry import Backoff, retry
from stoker.aio.scope import TaskScope
from stoker.core.errors import StokerError, StorageUnavailable
from stoker.core.ids import JobId
from stoker.dispatcher.ended_jobs import EndedJobs
from stoker.dispatcher.endpoint import Dispatcher
from stoker.dispatcher.live_jobs import LiveJobs
from stoker.dispatcher.recovery import Recovery, decide_recovery
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.stores import Stores, cleanup_steps, stores_of
from stoker.ha.leadership import Leadership
from stoker.ha.stores.job_graphs import StoredJob

log = logging.getLogger(__name__)

RECOVERY_BACKOFF = Backoff(initial=timedelta(seconds=0.2), maximum=timedelta(seconds=10))
PRUNE_SECONDS = 600.0
QUARANTINE_SECONDS = 30.0


async def lead_dispatcher(leadership: Leadership, services: DispatcherServices) -> None:
    """Run until cancelled."""
    stores = stores_of(leadership, services.storage, services.ids)
    recovery = await _recover(stores)
    ended = EndedJobs(recovery.ended)
    steps = cleanup_steps(stores, services.storage, services.blobs)
    live = LiveJobs(services, stores.results, ended, steps)
    dispatcher = Dispatcher(services, stores=stores, live=live, ended=ended, token=leadership.token)
    async with (
        TaskScope("dispatcher") as scope,
        live.scope,
        services.rpc.running(dispatcher) as address,
    ):
        for job in recovery.run:
            live.start(job)
        for job_id in recovery.clean_up:
            live.clean_up_later(job_id)
        await leadership.publish(address)
        scope.spawn("retention", _forget_old_results(services, stores, ended))
        for broken in recovery.broken:
            scope.spawn(f"quarantine {broken.job_id}", _load_later(stores, live, broken.job_id))
        await asyncio.get_running_loop().create_future()


async def _recover(stores: Stores) -> Recovery:
    """A store that cannot be read is retried, and never taken for an empty one."""

    async def read() -> Recovery:
        results = await stores.results.all()
        jobs = await stores.graphs.read_all()
        wishes = await stores.wishes.all()
        return decide_recovery(jobs, results, wishes)

    recovery = await retry(read, on=(StorageUnavailable,), backoff=RECOVERY_BACKOFF)
    log.info(
        "recovered %d jobs to run, %d to clean up, %d ended, %d that cannot be loaded",
        len(recovery.run),
        len(recovery.clean_up),
        len(recovery.ended),
        len(recovery.broken),
    )
    for broken in recovery.broken:
        log.error("job %s cannot be loaded and is left alone: %s", broken.job_id, broken.reason)
    return recovery


async def _load_later(stores: Stores, live: LiveJobs, job_id: JobId) -> None:
    """One that could not be loaded is tried again: a storage may recover, a file be restored."""
    while True:
        await asyncio.sleep(QUARANTINE_SECONDS)
        try:
            job = await stores.graphs.get(job_id)
            wish = await stores.wishes.all()
        except StokerError as error:
            log.info("job %s cannot be loaded yet: %s", job_id, error)
            continue
        if job is None:
            return
        if isinstance(job, StoredJob):
            log.info("job %s could be loaded at last", job_id)
            [recovered] = decide_recovery([job], [], wish).run
            live.start(recovered)
            return


async def _forget_old_results(
    services: DispatcherServices, stores: Stores, ended: EndedJobs
) -> None:
    options = services.options
    while True:
        try:
            ended.remove(
                await stores.results.prune(
                    services.wall_clock(), options.results_max_age, options.results_max_count
                )
            )
        except StokerError as error:
            log.warning("old results are kept for now: %s", error)
        await asyncio.sleep(PRUNE_SECONDS)
