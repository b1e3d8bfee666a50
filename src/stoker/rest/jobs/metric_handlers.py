"""Requests for figures and counts of jobs: decode, ask the dispatcher, encode."""

from typing import Annotated

from stoker.api.metrics import AggregatedMetric, Metric
from stoker.api.vertices import JobAccumulators
from stoker.core.errors import JobNotFound
from stoker.core.results import JobDetails
from stoker.rest.http.routing import QueryParameter, get
from stoker.rest.jobs.aggregation import aggregated, parse_modes, parse_names, selected
from stoker.rest.jobs.metrics import job_figures
from stoker.rest.jobs.subtask_views import accumulators_of
from stoker.rest.requests.parameters import JobIdText, parse_job_id
from stoker.rest.services import RestServices

Names = Annotated[str | None, QueryParameter(name="get", description="names of metrics")]
WithSerialized = Annotated[bool, QueryParameter(name="includeSerializedValue")]


async def _job(services: RestServices, jobid: str) -> JobDetails:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return await dispatcher.job_details(job_id)


@get("/jobs/{jobid}/metrics", summary="Figures of a job")
async def job_metrics(
    jobid: JobIdText, services: RestServices, names: Names = None
) -> list[Metric]:
    job = await _job(services, jobid)
    return selected(job_figures(job, services.clock()), parse_names(names))


@get("/jobs/metrics", summary="Figures of jobs that have not ended, joined")
async def jobs_metrics(
    services: RestServices,
    names: Names = None,
    agg: str | None = None,
    jobs: str | None = None,
) -> list[AggregatedMetric]:
    modes = parse_modes(agg)
    wanted = [parse_job_id(each) for each in parse_names(jobs) or ()]
    dispatcher = await services.dispatcher()
    if not wanted:
        wanted = list((await services.look()).jobs.live)
    figures = []
    for job_id in wanted:
        try:
            figures.append(job_figures(await dispatcher.job_details(job_id), services.clock()))
        except JobNotFound:
            continue
    return aggregated(figures, parse_names(names), modes)


@get("/jobs/{jobid}/accumulators", summary="Counts of a job")
async def job_accumulators(
    jobid: JobIdText, services: RestServices, include_serialized_value: WithSerialized = False
) -> JobAccumulators:
    job = await _job(services, jobid)
    counts = accumulators_of(region.current for region in job.regions)
    return JobAccumulators(user_task_accumulators=counts)


JOB_FIGURE_HANDLERS = (
    job_metrics,
    jobs_metrics,
    job_accumulators,
)
