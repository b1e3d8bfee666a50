"""Requests about jobs: each handler decodes, asks the dispatcher, and encodes."""

from typing import Annotated

import msgspec

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
from stoker.core.errors import CallTimedOut, InvalidInput
from stoker.core.results import JobDetails
from stoker.rest.http.asgi import Request, Response
from stoker.rest.http.routing import QueryParameter, get, patch
from stoker.rest.job_list.query import MAX_LIMIT, parse_query
from stoker.rest.jobs import job_views
from stoker.rest.jobs.job_views import DEFAULT_EXCEPTIONS, job_exceptions, parse_labels
from stoker.rest.jobs.lookup import load_job
from stoker.rest.jobs.plan_views import plan_of
from stoker.rest.openapi.bodies import WHOLE_NUMBER, json_object
from stoker.rest.requests.parameters import JobIdText, parse_expiry, parse_job_id, parse_statuses
from stoker.rest.services import RestServices
from stoker.security.redaction import redact_failure, secret_values, without_secrets
from stoker.security.tokens import Permission

STOP_REMOVED = "mode=stop was removed; use mode=cancel to end the job without a savepoint"

HeartbeatSeconds = Annotated[
    float | None,
    QueryParameter(ge=0, description="seconds after which a silent client counts as gone"),
]
Seconds = Annotated[float | None, QueryParameter(ge=0, description="seconds to wait for a change")]
Limit = Annotated[int, QueryParameter(name="maxExceptions", ge=1)]
StateFilter = Annotated[str | None, QueryParameter(name="state")]
TypeFilter = Annotated[str | None, QueryParameter(name="type")]
Offset = Annotated[int | None, QueryParameter(ge=0, le=2**53)]
PageSize = Annotated[int | None, QueryParameter(ge=0, le=MAX_LIMIT)]
OwnerFilter = Annotated[str | None, QueryParameter(description="owners, with commas between them")]
Shown = Annotated[
    str | None,
    QueryParameter(
        description="owner: show the owner of each job, and how often its tasks were started again"
    ),
]
LabelFilter = Annotated[str | None, QueryParameter(name="failureLabelFilter")]


@get(
    "/jobs",
    needs=Permission.QUERY,
    summary="Ids and states of all jobs; for the role submit, of its own",
    answer=JobIds,
)
async def list_jobs(request: Request, services: RestServices) -> Response:
    return Response((await services.job_list_snapshot()).ids_body(request.caller.only_own))


@get(
    "/jobs/overview",
    needs=Permission.QUERY,
    summary="All jobs, for the role submit its own, newest first; with any parameter, a page of "
    "those that match",
    answer=JobsOverview,
)
async def overview_of_jobs(
    request: Request,
    services: RestServices,
    states: StateFilter = None,
    job_type: TypeFilter = None,
    name: str | None = None,
    owner: OwnerFilter = None,
    show: Shown = None,
    sort: str | None = None,
    offset: Offset = None,
    limit: PageSize = None,
) -> Response:
    query = parse_query(
        state=states,
        type_=job_type,
        name=name,
        owner=owner,
        show=show,
        sort=sort,
        offset=offset,
        limit=limit,
    )
    query = query.limited_to(request.caller.only_own)
    return Response((await services.job_list_snapshot()).body(query))


@get("/jobs/{jobid}", needs=Permission.QUERY, summary="One job with its vertices and its plan")
async def job(jobid: JobIdText, services: RestServices) -> JobAnswer:
    return job_views.job_answer(await load_job(services, jobid), services.clock())


@get(
    "/jobs/{jobid}/details",
    needs=Permission.QUERY,
    summary="Everything that Stoker knows about a job, in its own terms",
)
async def details(jobid: JobIdText, services: RestServices) -> JobDetails:
    return without_secrets(await load_job(services, jobid))


@get(
    "/jobs/{jobid}/status",
    needs=Permission.QUERY,
    summary="State of a job; with wait and known, wait until it is in none of the known states",
)
async def status(
    jobid: JobIdText,
    services: RestServices,
    wait: Seconds = None,
    known: str | None = None,
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


@get("/jobs/{jobid}/execution-result", needs=Permission.QUERY, summary="How a job ended")
async def execution_result(jobid: JobIdText, services: RestServices) -> ExecutionResultAnswer:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    result = await dispatcher.job_result(job_id)
    if result is not None and result.failure is not None:
        job = await dispatcher.job_details(job_id)
        values = secret_values(job.configuration | job.parameters)
        result = msgspec.structs.replace(result, failure=redact_failure(result.failure, values))
    return job_views.execution_result(result)


@get("/jobs/{jobid}/plan", needs=Permission.QUERY, summary="Vertices and edges of a job")
async def plan(jobid: JobIdText, services: RestServices) -> PlanAnswer:
    return PlanAnswer(plan=plan_of(await load_job(services, jobid)))


@get("/jobs/{jobid}/exceptions", needs=Permission.QUERY, summary="Failures of a job, newest first")
async def exceptions(
    jobid: JobIdText,
    services: RestServices,
    max_exceptions: Limit = DEFAULT_EXCEPTIONS,
    failure_label_filter: LabelFilter = None,
) -> JobExceptions:
    labels = parse_labels(failure_label_filter)
    job = without_secrets(await load_job(services, jobid))
    return job_exceptions(job, max_exceptions, labels)


@get(
    "/jobs/{jobid}/config",
    needs=Permission.QUERY,
    summary="Configuration of a job, without secrets",
)
async def config(jobid: JobIdText, services: RestServices) -> JobConfig:
    return job_views.job_config(await load_job(services, jobid))


@patch(
    "/jobs/{jobid}",
    needs=Permission.CONTROL,
    status=202,
    summary="Cancel a job; mode is cancel",
    answer=Nothing,
    other_statuses={
        308: "mode=stop was removed: end the job in another way",
        408: "The job is not cancelled yet; try again",
    },
)
async def cancel(
    jobid: JobIdText, services: RestServices, mode: str = "cancel"
) -> Nothing | Response:
    job_id = parse_job_id(jobid)
    if mode.lower() == "stop":
        return _error(308, STOP_REMOVED)
    if mode.lower() != "cancel":
        raise InvalidInput(f"mode must be cancel, found {mode!r}")
    dispatcher = await services.dispatcher()
    try:
        await dispatcher.cancel_job(job_id)
    except CallTimedOut as error:
        return _error(408, error.message)
    return Nothing()


def _error(status: int, message: str) -> Response:
    return Response(msgspec.json.encode(Errors(errors=[message])), status=status)


@patch(
    "/jobs/{jobid}/clientHeartbeat",
    needs=Permission.SUBMIT,
    status=202,
    summary="Heartbeat from the client of an attached job",
    body=json_object(expiredTimestamp=WHOLE_NUMBER),
)
async def client_heartbeat(
    jobid: JobIdText,
    request: Request,
    services: RestServices,
    seconds: HeartbeatSeconds = None,
) -> Nothing:
    """Flink's clients send a deadline, which depends on their clock; Stoker's send a period."""
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
    client_heartbeat,
)
