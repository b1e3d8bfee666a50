"""Server-sent events: changes of jobs and of the cluster, sent as they happen.

A stream ends when its master ends or cannot reach a leading dispatcher, as is usual when the leader
changes. The client then connects again and so reaches the new leader; each stream begins with the
current state, so no state is missed in between.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import msgspec

from stoker.api.control import ClusterEvent, JobEvent, JobProgressEvent
from stoker.core.errors import StokerError
from stoker.core.ids import JobId
from stoker.core.results import JobDetails, JobSummary
from stoker.gateways.dispatcher import ClusterOverview
from stoker.rest.http.asgi import Stream
from stoker.rest.http.routing import get
from stoker.rest.job_list.deltas import JobList
from stoker.rest.requests.parameters import JobIdText, parse_job_id
from stoker.rest.services import RestServices

KEEP_ALIVE_SECONDS = 15.0
POLL_SECONDS = 0.5
_RETRY = b"retry: 1000\n\n"
_KEEP_ALIVE = b": alive\n\n"


def encode_event(name: str, content: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(content))


def changed_jobs(before: dict[JobId, JobSummary], jobs: Iterable[JobSummary]) -> list[JobSummary]:
    """Jobs that are new or have changed, oldest change first."""
    found = [job for job in jobs if before.get(job.job_id) != job]
    return sorted(found, key=lambda job: job.last_change)


async def cluster_events(services: RestServices) -> AsyncGenerator[bytes, None]:
    """Send changes of all jobs and of the cluster, until the client leaves or a call fails."""
    yield _RETRY
    loop = asyncio.get_running_loop()
    known: dict[JobId, JobSummary] | None = None
    cluster: ClusterOverview | None = None
    last_sent = loop.time()
    while True:
        try:
            dispatcher = await services.dispatcher()
            jobs = (await services.job_list_snapshot()).jobs
            overview = await dispatcher.cluster_overview()
        except StokerError:
            return
        pieces = []
        if overview != cluster:
            cluster = overview
            pieces.append(encode_event("cluster", _cluster(overview)))
        pieces += _job_events(jobs, known)
        known = {job.job_id: job for job in jobs.all_jobs()}
        if loop.time() - last_sent >= KEEP_ALIVE_SECONDS and not pieces:
            pieces.append(_KEEP_ALIVE)
        if pieces:
            last_sent = loop.time()
            yield b"".join(pieces)
        await asyncio.sleep(POLL_SECONDS)


def _job_events(jobs: JobList, known: dict[JobId, JobSummary] | None) -> list[bytes]:
    if known is None:
        # The first events are the live jobs; a client gets the ended ones from the job list.
        return [encode_event("job", _job(job)) for job in jobs.live.values()]
    pieces = [encode_event("job", _job(job)) for job in changed_jobs(known, jobs.all_jobs())]
    gone = known.keys() - {job.job_id for job in jobs.all_jobs()}
    return pieces + [encode_event("removed", {"jid": job_id}) for job_id in sorted(gone)]


async def job_events(services: RestServices, first: JobDetails) -> AsyncGenerator[bytes, None]:
    """Send states and progress of one job until it ends."""
    yield _RETRY
    loop = asyncio.get_running_loop()
    sent: JobProgressEvent | None = None
    sent_at = loop.time()
    job = first
    while True:
        progress = _progress(job)
        if progress != sent:
            sent, sent_at = progress, loop.time()
            yield encode_event("job", progress)
        elif loop.time() - sent_at >= KEEP_ALIVE_SECONDS:
            sent_at = loop.time()
            yield _KEEP_ALIVE
        if job.status.globally_terminal:
            yield encode_event("end", {"jid": job.job_id, "state": job.status})
            return
        try:
            dispatcher = await services.dispatcher()
            await dispatcher.wait_for_change(job.job_id, (job.status,), POLL_SECONDS)
            job = await dispatcher.job_details(job.job_id)
        except StokerError:
            return


def _cluster(overview: ClusterOverview) -> ClusterEvent:
    return ClusterEvent(
        taskmanagers=overview.resources.task_executors,
        slots_total=overview.resources.slots_total,
        slots_available=overview.resources.slots_free,
        jobs_running=overview.jobs_running,
        jobs_finished=overview.jobs_finished,
        jobs_cancelled=overview.jobs_cancelled,
        jobs_failed=overview.jobs_failed,
    )


def _job(job: JobSummary) -> JobEvent:
    return JobEvent(
        jid=job.job_id,
        name=job.name,
        state=job.status,
        last_modification=job.last_change,
        tasks={state.value: count for state, count in job.tasks.items()},
    )


def _progress(job: JobDetails) -> JobProgressEvent:
    progress = [region.current.progress for region in job.regions]
    return JobProgressEvent(
        jid=job.job_id,
        name=job.name,
        state=job.status,
        waiting=job.waiting,
        regions={region.id: region.current.state for region in job.regions},
        tasks_total=sum(each.tasks_total for each in progress),
        tasks_done=sum(each.tasks_done for each in progress),
        batches=sum(each.batches for each in progress),
        failures=len(job.failures),
    )


_TYPE = "text/event-stream"


@get("/events", summary="Changes of jobs and of the cluster, as they happen", media_type=_TYPE)
async def events(services: RestServices) -> Stream:
    await services.dispatcher()
    return Stream(cluster_events(services), media_type=_TYPE)


@get(
    "/jobs/{jobid}/events",
    summary="Changes of one job until it ends, as they happen",
    media_type=_TYPE,
)
async def events_of_a_job(jobid: JobIdText, services: RestServices) -> Stream:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    first = await dispatcher.job_details(job_id)
    return Stream(job_events(services, first), media_type=_TYPE)


EVENT_HANDLERS = (events, events_of_a_job)
