"""Requests for what changes, told as server-sent events."""

from litestar import get
from litestar.response import Stream

from stoker.rest.control.event_stream import cluster_events, job_events
from stoker.rest.requests.parameters import JobIdText, Services, parse_job_id

_TYPE = "text/event-stream"


@get("/events", summary="Changes of jobs and of the cluster, as they happen", media_type=_TYPE)
async def events(services: Services) -> Stream:
    await services.dispatcher()
    return Stream(cluster_events(services), media_type=_TYPE)


@get("/jobs/{jobid:str}/events", summary="Changes of one job, up to its end", media_type=_TYPE)
async def events_of_a_job(jobid: JobIdText, services: Services) -> Stream:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    first = await dispatcher.job_details(job_id)
    return Stream(job_events(services, first), media_type=_TYPE)


EVENT_HANDLERS = (events, events_of_a_job)
