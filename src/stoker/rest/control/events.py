"""Server-sent events: changes of jobs and of the cluster, sent as they happen.

A stream ends when its master ends or cannot reach a leading dispatcher, as is usual when the leader
changes. The client then connects again and so reaches the new leader; each stream begins with the
current state, so no state is missed in between.
"""

import asyncio
from collections.abc import AsyncGenerator

from stoker.api.control import JobProgressEvent
from stoker.core.errors import StokerError
from stoker.core.results import JobDetails
from stoker.gateways.dispatcher import ClusterOverview
from stoker.rest.control.feed import POLL_SECONDS, FellBehind, encode_event
from stoker.rest.http.asgi import Stream
from stoker.rest.http.routing import get
from stoker.rest.job_list.deltas import JobList
from stoker.rest.requests.parameters import JobIdText, parse_job_id
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

KEEP_ALIVE_SECONDS = 15.0
_RETRY = b"retry: 1000\n\n"
_KEEP_ALIVE = b": alive\n\n"


async def cluster_events(services: RestServices) -> AsyncGenerator[bytes, None]:
    """Send changes of all jobs and of the cluster, until the client leaves or a call fails."""
    yield _RETRY
    loop = asyncio.get_running_loop()

    async def look() -> tuple[JobList, ClusterOverview]:
        dispatcher = await services.dispatcher()
        jobs = (await services.job_list_snapshot()).jobs
        return jobs, await dispatcher.cluster_overview()

    last_sent = loop.time()
    try:
        number, pieces = await services.feed.begin(look)
        while True:
            if not pieces and loop.time() - last_sent >= KEEP_ALIVE_SECONDS:
                pieces = _KEEP_ALIVE
            if pieces:
                last_sent = loop.time()
                yield pieces
            await asyncio.sleep(POLL_SECONDS)
            number, pieces = await services.feed.changes_after(number, look)
    except (StokerError, FellBehind):
        return


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


@get(
    "/events",
    needs=Permission.READ,
    summary="Changes of jobs and of the cluster, as they happen",
    media_type=_TYPE,
)
async def events(services: RestServices) -> Stream:
    await services.dispatcher()
    return Stream(cluster_events(services), media_type=_TYPE)


@get(
    "/jobs/{jobid}/events",
    needs=Permission.QUERY,
    summary="Changes of one job until it ends, as they happen",
    media_type=_TYPE,
)
async def events_of_a_job(jobid: JobIdText, services: RestServices) -> Stream:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    first = await dispatcher.job_details(job_id)
    return Stream(job_events(services, first), media_type=_TYPE)


EVENT_HANDLERS = (events, events_of_a_job)
