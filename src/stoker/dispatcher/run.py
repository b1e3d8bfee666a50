"""When a dispatcher lives: records are read, recovery is decided, then it serves (RUN-07)."""

import asyncio
import itertools
import logging
from datetime import timedelta

from stoker.aio.retry import Backoff, retry
from stoker.aio.scope import TaskScope
from stoker.core.errors import StokerError, StorageUnavailable
from stoker.dispatcher.attached_clients import cancel_abandoned
from stoker.dispatcher.ended_jobs import EndedJobs
from stoker.dispatcher.endpoint import Dispatcher
from stoker.dispatcher.job_locks import JobLocks
from stoker.dispatcher.jobs import LiveJobs
from stoker.dispatcher.quarantine import Quarantine
from stoker.dispatcher.queues import Queues
from stoker.dispatcher.recovery import Recovery, decide_recovery
from stoker.dispatcher.replacements.registry import Replacements
from stoker.dispatcher.savepoints import SavepointTriggers
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.shutdown.run import ClusterShutdown, end_unread, shutdown_to_complete
from stoker.dispatcher.stores import Stores, cleanup_steps, stores_of
from stoker.dispatcher.sweep import OrphanSweep
from stoker.ha.identity import bind_to_same_cluster
from stoker.ha.leadership import Leadership

log = logging.getLogger(__name__)

RECOVERY_BACKOFF = Backoff(initial=timedelta(seconds=0.2), maximum=timedelta(seconds=10))
PATIENT_READS = 6
"""So often all jobs are read again, before files that cannot be read are a matter of their jobs."""
PRUNE_SECONDS = 600.0


async def lead_dispatcher(leadership: Leadership, services: DispatcherServices) -> None:
    """Run until cancelled."""
    with services.undriven_jobs.enter(leadership):
        await _lead(leadership, services)


async def _lead(leadership: Leadership, services: DispatcherServices) -> None:
    stores = stores_of(leadership, services.storage, services.ids)
    shutdown_begun = await shutdown_to_complete(stores.shutdowns, services)
    limit = services.options.shutdown_timeout if shutdown_begun else None
    recovery = await _recover(stores, within=limit)
    if recovery is None:
        assert shutdown_begun is not None
        await end_unread(stores, shutdown_begun, services.wall_clock())
        await asyncio.get_running_loop().create_future()
        return
    begun = await stores.replacements.all()
    # A cluster that ends sweeps nothing, and does not wait for a storage that is away.
    is_ours = shutdown_begun is None and await retry(
        lambda: bind_to_same_cluster(leadership, services.storage, services.ids),
        on=(StorageUnavailable,),
        backoff=RECOVERY_BACKOFF,
    )
    ended = EndedJobs(recovery.ended)
    steps = cleanup_steps(stores, services.blobs)
    locks = JobLocks()
    queues = Queues(services.queues, services.wall_clock)
    live = LiveJobs(services, stores.results, ended, steps, queues)
    quarantine = Quarantine(
        recovery, stores=stores, live=live, locks=locks, wall_clock=services.wall_clock
    )
    live.put_aside = quarantine.put_aside
    replacements = Replacements(services, stores, queues, live.scope)
    sweep = OrphanSweep(
        services.storage,
        stores,
        services.options,
        live=lambda: live.ids() | replacements.job_ids(),
        is_quarantined=quarantine.has,
        locks=locks,
        wall_clock=services.wall_clock,
    )
    triggers = SavepointTriggers(live, live.scope)
    shutdown = ClusterShutdown(
        stores.shutdowns,
        live=live,
        quarantine=quarantine,
        triggers=triggers,
        replaced=replacements.job_ids,
        options=services.options,
        wall_clock=services.wall_clock,
        begun=shutdown_begun,
    )
    dispatcher = Dispatcher(
        services,
        stores=stores,
        live=live,
        ended=ended,
        quarantine=quarantine,
        locks=locks,
        queues=queues,
        triggers=triggers,
        shutdown=shutdown,
        replacements=replacements,
        token=leadership.token,
    )
    async with (
        TaskScope("dispatcher") as scope,
        live.scope,
        services.rpc.running(dispatcher) as address,
    ):
        services.undriven_jobs.decide_by(
            lambda job: live.is_undriven(job) or quarantine.is_wanted(job)
        )
        for to_run in recovery.run:
            live.start(to_run)
        for job_id in recovery.clean_up:
            live.clean_up_later(job_id)
        replacements.carry_on(begun, dispatcher.hands)
        await leadership.publish(address)
        scope.spawn(
            "clients",
            cancel_abandoned(
                dispatcher.clients, dispatcher.bound_to_clients, dispatcher.cancel_job
            ),
        )
        scope.spawn("shutdown", shutdown.run(dispatcher.cancel_job))
        scope.spawn("retention", _forget_old_results(services, stores, ended))
        if is_ours:
            scope.spawn("orphans", sweep.run())
        elif shutdown_begun is None:
            log.error("the storage belongs to the records of another coordinator: nothing is swept")
        for job in quarantine.all():
            scope.spawn(f"quarantine {job.job_id}", quarantine.keep_trying(job.job_id))
        await asyncio.get_running_loop().create_future()


async def _recover(stores: Stores, *, within: timedelta | None) -> Recovery | None:
    """A store that cannot be read is retried, and never taken for an empty one.

    None when that took too long, for one who cannot wait for ever.
    """
    tries = itertools.count()

    async def read() -> Recovery:
        results = await stores.results.all()
        jobs = await stores.graphs.read_all(insistent=next(tries) >= PATIENT_READS)
        cancellations = await stores.cancellations.all()
        return decide_recovery(jobs, results, cancellations, await stores.attempts.jobs())

    try:
        async with asyncio.timeout(within.total_seconds() if within else None) as limit:
            recovery = await retry(read, on=(StorageUnavailable,), backoff=RECOVERY_BACKOFF)
    except TimeoutError:
        if not limit.expired():
            raise
        return None
    log.info(
        "recovered %d jobs to run, %d to clean up, %d ended, %d that cannot be loaded",
        len(recovery.run),
        len(recovery.clean_up),
        len(recovery.ended),
        len(recovery.broken),
    )
    for broken in recovery.broken:
        log.error("job %s goes to quarantine: %s", broken.job_id, broken.reason)
    return recovery


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
