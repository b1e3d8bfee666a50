"""Requests for what changes, told as server-sent events."""

from stoker.rest.control.event_stream import cluster_events, job_events
from stoker.rest.http.asgi import Stream
from stoker.rest.http.routing import get
from stoker.rest.requests.parameters import JobIdText, parse_job_id
from stoker.rest.services import RestServices

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
