"""Requests about jobs: each decodes, asks the dispatcher once, and encodes."""

from typing import Annotated, Any

import msgspec
from litestar import MediaType, Request, Response, get, patch
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, QueryParameter

from stoker.api.jobs import (
    ExecutionResultAnswer,
    JobAnswer,
    JobConfig,
    JobExceptions,
    JobIds,
    JobsOverview,
    JobStatusAnswer,
    PlanAnswer,
)
from stoker.api.shape import Errors, Nothing
from stoker.core.checkpoints import SavepointRequest
from stoker.core.errors import CallTimedOut, Forbidden, InvalidInput
from stoker.core.results import JobDetails
from stoker.rest.job_list.query import MAX_LIMIT, parse_query
from stoker.rest.jobs import job_views
from stoker.rest.jobs.exception_views import DEFAULT_EXCEPTIONS, job_exceptions, parse_labels
from stoker.rest.jobs.plan_views import plan_answer
from stoker.rest.requests.parameters import (
    JobIdText,
    Services,
    parse_expiry,
    parse_job_id,
    parse_statuses,
)
from stoker.security.redaction import secret_values, shown_failure, without_secrets

STOP_MOVED = "mode=stop is gone; use mode=cancel to end the job without a savepoint"

HeartbeatSeconds = Annotated[
    float | None, QueryParameter(ge=0, description="the client is missed after so many seconds")
]
Seconds = Annotated[float | None, QueryParameter(ge=0, description="wait this long for a change")]
Limit = Annotated[int, QueryParameter(name="maxExceptions", ge=1)]
StateFilter = Annotated[str | None, QueryParameter(name="state")]
TypeFilter = Annotated[str | None, QueryParameter(name="type")]
Offset = Annotated[int | None, QueryParameter(ge=0, le=2**53)]
PageSize = Annotated[int | None, QueryParameter(ge=0, le=MAX_LIMIT)]
LabelFilter = Annotated[str | None, QueryParameter(name="failureLabelFilter")]


@get("/jobs", summary="Ids and states of all jobs")
async def list_jobs(services: Services) -> JobIds:
    look = await services.look()
    return job_views.job_ids(look.jobs.all())


@get(
    "/jobs/overview",
    summary="All jobs, newest first; a page of them when something is asked for",
    responses={200: ResponseSpec(JobsOverview, generate_examples=False, description="The jobs")},
)
async def overview_of_jobs(
    services: Services,
    states: StateFilter = None,
    job_type: TypeFilter = None,
    name: FromQuery[str | None] = None,
    sort: FromQuery[str | None] = None,
    offset: Offset = None,
    limit: PageSize = None,
) -> Response[bytes]:
    query = parse_query(
        state=states, type_=job_type, name=name, sort=sort, offset=offset, limit=limit
    )
    look = await services.look()
    return Response(b"".join(look.body(query)), media_type=MediaType.JSON)


@get("/jobs/{jobid:str}", summary="One job with its vertices and its plan")
async def job(jobid: JobIdText, services: Services) -> JobAnswer:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return job_views.job_answer(await dispatcher.job_details(job_id), services.clock())


@get("/jobs/{jobid:str}/details", summary="All that Stoker knows of a job, in its own words")
async def details(jobid: JobIdText, services: Services) -> JobDetails:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return without_secrets(await dispatcher.job_details(job_id))


@get(
    "/jobs/{jobid:str}/status",
    summary="State of a job; with wait and known, as soon as it is none of the known ones",
)
async def status(
    jobid: JobIdText,
    services: Services,
    wait: Seconds = None,
    known: FromQuery[str | None] = None,
) -> JobStatusAnswer:
    job_id = parse_job_id(jobid)
    if (wait is None) != (known is None):
        raise InvalidInput("wait and known belong together: ?wait=SECONDS&known=STATE")
    if wait is None or known is None:
        dispatcher = await services.dispatcher()
        return JobStatusAnswer(status=await dispatcher.job_status(job_id))
    states = parse_statuses(known)
    seconds = min(wait, services.options.max_wait.total_seconds())
    dispatcher = await services.dispatcher()
    return JobStatusAnswer(status=await dispatcher.wait_for_change(job_id, states, seconds))


@get("/jobs/{jobid:str}/execution-result", summary="How a job ended")
async def execution_result(jobid: JobIdText, services: Services) -> ExecutionResultAnswer:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    result = await dispatcher.job_result(job_id)
    if result is not None and result.failure is not None:
        job = await dispatcher.job_details(job_id)
        values = secret_values(job.configuration | job.parameters)
        result = msgspec.structs.replace(result, failure=shown_failure(result.failure, values))
    return job_views.execution_result(result)


@get("/jobs/{jobid:str}/plan", summary="Vertices and edges of a job")
async def plan(jobid: JobIdText, services: Services) -> PlanAnswer:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return plan_answer(await dispatcher.job_details(job_id))


@get("/jobs/{jobid:str}/exceptions", summary="Failures of a job, newest first")
async def exceptions(
    jobid: JobIdText,
    services: Services,
    max_exceptions: Limit = DEFAULT_EXCEPTIONS,
    failure_label_filter: LabelFilter = None,
) -> JobExceptions:
    job_id = parse_job_id(jobid)
    labels = parse_labels(failure_label_filter)
    dispatcher = await services.dispatcher()
    job = without_secrets(await dispatcher.job_details(job_id))
    return job_exceptions(job, max_exceptions, labels)


@get("/jobs/{jobid:str}/config", summary="Configuration of a job, without secrets")
async def config(jobid: JobIdText, services: Services) -> JobConfig:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return job_views.job_config(await dispatcher.job_details(job_id))


@patch("/jobs/{jobid:str}", status_code=202, summary="Cancel a job; mode is cancel")
async def cancel(
    jobid: JobIdText, services: Services, mode: FromQuery[str] = "cancel"
) -> Response[Nothing | Errors]:
    job_id = parse_job_id(jobid)
    if mode.lower() == "stop":
        return Response(Errors(errors=[STOP_MOVED]), status_code=308, media_type=MediaType.JSON)
    if mode.lower() != "cancel":
        raise InvalidInput(f"mode must be cancel, found {mode!r}")
    dispatcher = await services.dispatcher()
    try:
        await dispatcher.cancel_job(job_id)
    except CallTimedOut as late:
        return Response(Errors(errors=[late.message]), status_code=408, media_type=MediaType.JSON)
    return Response(Nothing(), status_code=202, media_type=MediaType.JSON)


@get("/jobs/{jobid:str}/yarn-cancel", status_code=202, summary="Cancel a job, by a GET")
async def cancel_by_get(
    jobid: JobIdText, request: Request[Any, Any, Any], services: Services
) -> Nothing:
    """Where a proxy lets only GET pass; Flink's dashboard does it in this way."""
    _refuse_links(request)
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    await dispatcher.cancel_job(job_id)
    return Nothing()


@get("/jobs/{jobid:str}/yarn-stop", status_code=202, summary="Stop a job, by a GET")
async def stop_by_get(
    jobid: JobIdText, request: Request[Any, Any, Any], services: Services
) -> Nothing:
    """With a savepoint in the configured place."""
    _refuse_links(request)
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    await dispatcher.trigger_savepoint(job_id, services.ids.nonce(), SavepointRequest(stop=True))
    return Nothing()


def _refuse_links(request: Request[Any, Any, Any]) -> None:
    """A page of another site can make a browser send a GET without asking anybody."""
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Forbidden("a job is not ended by a link of another site")


@patch(
    "/jobs/{jobid:str}/clientHeartbeat",
    status_code=202,
    summary="The client of an attached job shows that it is there",
)
async def client_heartbeat(
    jobid: JobIdText,
    request: Request[Any, Any, Any],
    services: Services,
    seconds: HeartbeatSeconds = None,
) -> Nothing:
    """Flink's clients say by their clock until when; ours how long, which needs no clock."""
    job_id = parse_job_id(jobid)
    if seconds is None:
        until = parse_expiry(await request.body())
        seconds = max(0.0, (until - services.clock()) / 1000)
    dispatcher = await services.dispatcher()
    await dispatcher.heartbeat_from_client(job_id, seconds)
    return Nothing()


JOB_HANDLERS = (
    list_jobs,
    overview_of_jobs,
    job,
    details,
    status,
    execution_result,
    plan,
    exceptions,
    config,
    cancel,
    cancel_by_get,
    stop_by_get,
    client_heartbeat,
)
