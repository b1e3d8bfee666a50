"""The life of a leading dispatcher: read the records, decide what to recover, then serve.

The order matters. Nothing is served before all records were read: a dispatcher that knew only
half of the jobs would answer that the others do not exist, and could accept one of them again. The
address is published last, when every recovered job is known. While a new leader is still
reading, it vouches for the attempts of all jobs (see `undriven_jobs`).
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stoker.aio.retry import retry
from stoker.aio.scope import TaskScope
from stoker.core.errors import StokerError, StorageUnavailable
from stoker.core.replacements import Replacement
from stoker.dispatcher.attached_clients import cancel_abandoned_jobs
from stoker.dispatcher.endpoint import Dispatcher
from stoker.dispatcher.job_events import JobEvents
from stoker.dispatcher.job_index import EndedJobs
from stoker.dispatcher.job_metrics import measure_jobs
from stoker.dispatcher.jobs import LiveJobs
from stoker.dispatcher.recovery import RECOVERY_BACKOFF, Recovery, recover
from stoker.dispatcher.replacements.registry import Replacements
from stoker.dispatcher.savepoints import SavepointTriggers
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.shutdown.run import (
    ClusterShutdown,
    complete_without_recovery,
    shutdown_to_complete,
)
from stoker.dispatcher.stores import Stores, open_stores
from stoker.dispatcher.submissions import Submissions
from stoker.dispatcher.sweep import OrphanSweep
from stoker.events.event import EventKind
from stoker.events.intake import EventRecorder
from stoker.events.log import EventLog
from stoker.events.settings import SettingsWatch
from stoker.ha.identity import bind_to_same_cluster
from stoker.ha.leadership import Leadership
from stoker.ha.stores.shutdowns import ShutdownRecord
from stoker.metrics.catalogue import LEADERSHIPS, TAKEOVER

log = logging.getLogger(__name__)

PRUNE_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class StoredState:
    """What a new leader has read before it serves."""

    recovery: Recovery
    replacements: list[Replacement]
    unfinished_shutdown: ShutdownRecord | None
    is_storage_ours: bool
    """Whether records and storage belong to the same cluster; not checked during a shutdown."""


async def lead_dispatcher(leadership: Leadership, services: DispatcherServices) -> None:
    """Run until cancelled."""
    with services.undriven_jobs.enter(leadership):
        stores = open_stores(leadership, services.storage, services.ids)
        state = await _read_state(leadership, services, stores)
        if state is not None:
            await _serve(leadership, services, stores, state)
        await asyncio.get_running_loop().create_future()


async def _read_state(
    leadership: Leadership, services: DispatcherServices, stores: Stores
) -> StoredState | None:
    """Read all records. None when they stay unreadable during a shutdown, which is then over."""
    shutdown = await shutdown_to_complete(stores.shutdowns, services)
    limit = services.options.shutdown_timeout if shutdown else None
    recovery = await recover(stores, within=limit)
    if recovery is None:
        assert shutdown is not None
        await complete_without_recovery(stores, shutdown, services.wall_clock())
        return None
    return StoredState(
        recovery=recovery,
        replacements=await stores.replacements.all(),
        unfinished_shutdown=shutdown,
        # A cluster that ends sweeps nothing, and does not wait for an unavailable storage.
        is_storage_ours=shutdown is None
        and await retry(
            lambda: bind_to_same_cluster(leadership, services.storage, services.ids),
            on=(StorageUnavailable,),
            backoff=RECOVERY_BACKOFF,
        ),
    )


async def _serve(
    leadership: Leadership, services: DispatcherServices, stores: Stores, state: StoredState
) -> None:
    events = EventLog(
        leadership,
        services.storage,
        services.ids,
        intake=services.events,
        options=services.event_log,
        wall_clock=services.wall_clock,
    )
    _record_succession(leadership, services, events.record)
    jobs = LiveJobs(services, stores, state.recovery, JobEvents(events.record))
    replacements = Replacements(services, stores, jobs)
    triggers = SavepointTriggers(jobs)
    shutdown = ClusterShutdown(
        stores.shutdowns,
        jobs=jobs,
        triggers=triggers,
        pending_replacements=replacements.pending_job_ids,
        options=services.options,
        wall_clock=services.wall_clock,
        unfinished=state.unfinished_shutdown,
    )
    dispatcher = Dispatcher(
        services,
        stores=stores,
        jobs=jobs,
        triggers=triggers,
        replacements=replacements,
        shutdown=shutdown,
        submissions=Submissions(state.recovery.submitted()),
        events=events,
        token=leadership.token,
    )
    async with (
        TaskScope("dispatcher") as scope,
        jobs.scope,
        services.rpc.running(dispatcher) as address,
    ):
        scope.spawn("events", events.run(jobs.facts, is_storage_ours=state.is_storage_ours))
        services.undriven_jobs.decide_by(jobs.is_undriven)
        jobs.events.recovering(
            {each.graph.job_id for each in state.recovery.run if each.was_admitted}
        )
        for to_run in state.recovery.run:
            jobs.start(to_run)
        for job_id in state.recovery.clean_up:
            jobs.start_cleanup(job_id)
        replacements.resume(state.replacements, dispatcher)
        await leadership.publish(address)
        scope.spawn("clients", cancel_abandoned_jobs(dispatcher.clients, dispatcher))
        scope.spawn("shutdown", shutdown.run(dispatcher.cancel_job))
        watch = SettingsWatch(leadership, events.record, services.read_settings)
        scope.spawn("settings", watch.run())
        scope.spawn("retention", _prune_results(services, stores, jobs.ended))
        if state.is_storage_ours:
            sweep = OrphanSweep(
                services.storage,
                stores,
                services.options,
                live=lambda: jobs.ids() | replacements.pending_job_ids(),
                is_quarantined=jobs.quarantine.contains,
                wall_clock=services.wall_clock,
            )
            scope.spawn("orphans", sweep.run())
        elif state.unfinished_shutdown is None:
            log.error("storage and coordinator belong to different clusters: nothing is swept")
        for job in jobs.quarantine.all():
            scope.spawn(
                f"quarantine {job.job_id}", jobs.quarantine.retry_until_released(job.job_id)
            )
        with _measured_leadership(leadership, services, jobs):
            await asyncio.get_running_loop().create_future()


@contextmanager
def _measured_leadership(
    leadership: Leadership, services: DispatcherServices, jobs: LiveJobs
) -> Iterator[None]:
    """Show the jobs as metrics while this dispatcher leads, and how long the take-over took."""
    services.metrics.counter(LEADERSHIPS).increment()
    noticed = leadership.grant.vacancy_noticed_at
    if noticed is not None:
        took = asyncio.get_running_loop().time() - noticed
        services.metrics.histogram(TAKEOVER).observe(took)
    with services.metrics.group() as metrics:
        measure_jobs(metrics, jobs, services.wall_clock)
        yield


def _record_succession(
    leadership: Leadership, services: DispatcherServices, record: EventRecorder
) -> None:
    grant = leadership.grant
    now, moment = asyncio.get_running_loop().time(), services.wall_clock()

    def wall_time(then: float | None) -> int | None:
        return None if then is None else moment - round(1000 * (now - then))

    previous = grant.previous
    record(
        EventKind.LEADER_CHANGED,
        f"{leadership.process} leads in epoch {leadership.token.epoch}"
        + (f", after {previous}" if previous else ""),
        data={
            "leader": leadership.process,
            "epoch": leadership.token.epoch,
            "previous": previous,
            "noticed": wall_time(grant.vacancy_noticed_at),
            "led": wall_time(grant.led_at),
        },
    )


async def _prune_results(services: DispatcherServices, stores: Stores, ended: EndedJobs) -> None:
    """Remove results that are too old or too many, at regular intervals."""
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
