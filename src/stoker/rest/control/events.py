"""Server-sent events: what changes is told as it happens."""

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
LOOK_SECONDS = 0.5
_RETRY = b"retry: 1000\n\n"
_ALIVE = b": alive\n\n"


def event(name: str, content: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(content))


def changes(before: dict[JobId, JobSummary], jobs: Iterable[JobSummary]) -> list[JobSummary]:
    """The jobs that are new or differ from what was known, oldest change first."""
    found = [job for job in jobs if before.get(job.job_id) != job]
    return sorted(found, key=lambda job: job.last_change)


async def cluster_events(services: RestServices) -> AsyncGenerator[bytes, None]:
    """Until the client leaves, or nobody leads: then it connects again and finds the leader."""
    yield _RETRY
    loop = asyncio.get_running_loop()
    known: dict[JobId, JobSummary] | None = None
    cluster: ClusterOverview | None = None
    told = loop.time()
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
            pieces.append(event("cluster", _cluster(overview)))
        pieces += _job_events(jobs, known)
        known = {job.job_id: job for job in jobs.all_jobs()}
        if loop.time() - told >= KEEP_ALIVE_SECONDS and not pieces:
            pieces.append(_ALIVE)
        if pieces:
            told = loop.time()
            yield b"".join(pieces)
        await asyncio.sleep(LOOK_SECONDS)


def _job_events(jobs: JobList, known: dict[JobId, JobSummary] | None) -> list[bytes]:
    if known is None:
        # At the beginning those that live: the list of jobs tells of the others.
        return [event("job", _job(job)) for job in jobs.live.values()]
    pieces = [event("job", _job(job)) for job in changes(known, jobs.all_jobs())]
    gone = known.keys() - {job.job_id for job in jobs.all_jobs()}
    return pieces + [event("removed", {"jid": job_id}) for job_id in sorted(gone)]


async def job_events(services: RestServices, first: JobDetails) -> AsyncGenerator[bytes, None]:
    """States and progress of one job, up to its end."""
    yield _RETRY
    loop = asyncio.get_running_loop()
    told: JobProgressEvent | None = None
    at = loop.time()
    job = first
    while True:
        seen = _progress(job)
        if seen != told:
            told, at = seen, loop.time()
            yield event("job", seen)
        elif loop.time() - at >= KEEP_ALIVE_SECONDS:
            at = loop.time()
            yield _ALIVE
        if job.status.globally_terminal:
            yield event("end", {"jid": job.job_id, "state": job.status})
            return
        try:
            dispatcher = await services.dispatcher()
            await dispatcher.wait_for_change(job.job_id, (job.status,), LOOK_SECONDS)
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


@get("/jobs/{jobid}/events", summary="Changes of one job, up to its end", media_type=_TYPE)
async def events_of_a_job(jobid: JobIdText, services: RestServices) -> Stream:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    first = await dispatcher.job_details(job_id)
    return Stream(job_events(services, first), media_type=_TYPE)


EVENT_HANDLERS = (events, events_of_a_job)
