"""Requests to read the event log, and to follow what happens."""

from typing import Annotated

from stoker.api.events import EventsAnswer
from stoker.core.errors import AccessDenied
from stoker.core.values import Millis
from stoker.events.event import EventId
from stoker.events.query import MAX_LIMIT, EventQuery
from stoker.rest.events.log_views import page_view
from stoker.rest.events.stream import PATIENCE_SECONDS, stream_events
from stoker.rest.events.topics import DEFAULT, parse_topics
from stoker.rest.http.access import Requester
from stoker.rest.http.asgi import Request, Stream
from stoker.rest.http.routing import HeaderParameter, QueryParameter, get
from stoker.rest.requests.parameters import parse_job_id
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

Kinds = Annotated[
    str, QueryParameter(name="kind", description="only these kinds, with commas: job-failed,…")
]
OfJob = Annotated[
    str | None, QueryParameter(name="job", description="only events of the job with this id")
]
OfOwner = Annotated[
    str | None, QueryParameter(name="owner", description="only events of this owner's jobs")
]
Since = Annotated[
    Millis | None, QueryParameter(description="from this time on, in milliseconds since 1970")
]
Until = Annotated[
    Millis | None, QueryParameter(description="before this time, in milliseconds since 1970")
]
After = Annotated[str | None, QueryParameter(description="only events behind the one with this id")]
Mark = Annotated[
    str | None, QueryParameter(name="page", description="`next` of the page before this one")
]
OldestFirst = Annotated[
    bool, QueryParameter(name="oldest-first", description="from the oldest event to the newest")
]
Limit = Annotated[int, QueryParameter(ge=1, le=MAX_LIMIT, description="most events to return")]
TopicList = Annotated[
    str, QueryParameter(description="what to follow, with commas: jobs, cluster, log, job:ID")
]
LastEvent = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID",
        description="what a browser that connects again has got last; it counts instead of `after`",
    ),
]
_TYPE = "text/event-stream"


@get(
    "/events/log",
    needs=Permission.QUERY,
    summary="What happened in the cluster, from the durable event log, newest first",
)
async def event_log(
    request: Request,
    services: RestServices,
    kinds: Kinds = "",
    job: OfJob = None,
    owner: OfOwner = None,
    since: Since = None,
    until: Until = None,
    after: After = None,
    mark: Mark = None,
    oldest_first: OldestFirst = False,
    limit: Limit = 100,
) -> EventsAnswer:
    query = EventQuery(
        kinds=tuple(kind.strip() for kind in kinds.split(",") if kind.strip()),
        job=None if job is None else parse_job_id(job),
        owner=_visible_owner(request.caller, owner),
        since=since,
        until=until,
        after=None if after is None else EventId.parse(after),
        mark=None if mark is None else EventId.parse(mark),
        oldest_first=oldest_first,
        limit=limit,
    )
    dispatcher = await services.dispatcher()
    return page_view(await dispatcher.read_events(query))


@get(
    "/events",
    needs=Permission.QUERY,
    summary="What happens from now on, as it happens, over one connection for several topics",
    media_type=_TYPE,
)
async def events(
    request: Request,
    services: RestServices,
    topics: TopicList = DEFAULT,
    after: After = None,
    last_event: LastEvent = None,
) -> Stream:
    wanted = parse_topics(topics)
    begin = last_event or after
    position = None if begin is None else EventId.parse(begin)
    dispatcher = await services.dispatcher()
    owner = request.caller.only_own
    for job_id in wanted.job_ids:
        known = await dispatcher.job_owner(job_id)
        if owner not in (None, known):
            raise _not_yours(request.caller, f"job {job_id} belongs to another owner")
        await dispatcher.job_status(job_id)
    chunks = stream_events(services, wanted, owner=owner, after=position)
    return Stream(chunks, media_type=_TYPE, patience=PATIENCE_SECONDS)


def _visible_owner(caller: Requester, wanted: str | None) -> str | None:
    """The owner whose events are searched; None for all."""
    if caller.only_own is None:
        return wanted
    if wanted not in (None, caller.only_own):
        raise _not_yours(caller, f"the events of {wanted} belong to another owner")
    return caller.only_own


def _not_yours(caller: Requester, what: str) -> AccessDenied:
    return AccessDenied(
        f"{what}; the token {caller.name} has the role {caller.role}, with which one sees one's "
        "own jobs"
    )


EVENT_HANDLERS = (event_log, events)
