"""Requests about jobs: each decodes, asks the dispatcher once, and encodes."""

from typing import Annotated

from litestar import MediaType, Response, get, patch
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
from stoker.core.errors import CallTimedOut, InvalidInput
from stoker.core.results import JobDetails
from stoker.rest import job_views
from stoker.rest.exception_views import DEFAULT_EXCEPTIONS, job_exceptions, parse_labels
from stoker.rest.parameters import JobIdText, Services, parse_job_id, parse_status
from stoker.rest.plan_views import plan_answer

STOP_MOVED = "mode=stop is gone; use mode=cancel to end the job without a savepoint"

Seconds = Annotated[float | None, QueryParameter(ge=0, description="wait this long for a change")]
Limit = Annotated[int, QueryParameter(name="maxExceptions", ge=1)]
LabelFilter = Annotated[str | None, QueryParameter(name="failureLabelFilter")]


@get("/jobs", summary="Ids and states of all jobs")
async def list_jobs(services: Services) -> JobIds:
    dispatcher = await services.dispatcher()
    return job_views.job_ids(await dispatcher.list_jobs())


@get("/jobs/overview", summary="All jobs, newest first")
async def overview_of_jobs(services: Services) -> JobsOverview:
    dispatcher = await services.dispatcher()
    return job_views.jobs_overview(await dispatcher.list_jobs(), services.clock())


@get("/jobs/{jobid:str}", summary="One job with its vertices and its plan")
async def job(jobid: JobIdText, services: Services) -> JobAnswer:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return job_views.job_answer(await dispatcher.job_details(job_id), services.clock())


@get("/jobs/{jobid:str}/details", summary="All that Stoker knows of a job, in its own words")
async def details(jobid: JobIdText, services: Services) -> JobDetails:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return job_views.without_secrets(await dispatcher.job_details(job_id))


@get(
    "/jobs/{jobid:str}/status",
    summary="State of a job; with wait and known, as soon as it differs from the known one",
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
    state = parse_status(known)
    seconds = min(wait, services.options.max_wait.total_seconds())
    dispatcher = await services.dispatcher()
    return JobStatusAnswer(status=await dispatcher.wait_for_change(job_id, state, seconds))


@get("/jobs/{jobid:str}/execution-result", summary="How a job ended")
async def execution_result(jobid: JobIdText, services: Services) -> ExecutionResultAnswer:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return job_views.execution_result(await dispatcher.job_result(job_id))


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
    return job_exceptions(await dispatcher.job_details(job_id), max_exceptions, labels)


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
)
