"""Requests about applications, which group jobs in Flink 2.3.

Here every job is an application of its own, with the id of the job.
"""

from collections.abc import Iterable

from stoker.api.cluster import ConfigurationEntry
from stoker.api.flink import (
    APPLICATION_STATES,
    ApplicationAnswer,
    ApplicationException,
    ApplicationExceptionHistory,
    ApplicationExceptions,
    ApplicationOverview,
    Applications,
)
from stoker.api.shape import Nothing
from stoker.core.results import JobDetails, JobSummary, summary_of
from stoker.core.states import JobStatus
from stoker.core.values import Millis
from stoker.rest.control.processes import configuration_entries
from stoker.rest.http.routing import get, post
from stoker.rest.jobs.job_views import job_overview, stack_trace
from stoker.rest.jobs.vertex_views import duration, end_time
from stoker.rest.requests.parameters import parse_application_id
from stoker.rest.services import RestServices
from stoker.security.redaction import without_secrets
from stoker.security.tokens import Permission

_STATE = {
    JobStatus.INITIALIZING: "CREATED",
    JobStatus.CREATED: "CREATED",
    JobStatus.FAILING: "FAILING",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELLING: "CANCELING",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FINISHED: "FINISHED",
}


def application_state(status: JobStatus) -> str:
    return _STATE.get(status, "RUNNING")


def _name(job_name: str) -> str:
    return f"SingleJobApplication({job_name})"


def applications_answer(jobs: Iterable[JobSummary], now: Millis) -> Applications:
    return Applications(
        applications=[
            ApplicationOverview(
                id=job.job_id,
                name=_name(job.name),
                start_time=job.start,
                end_time=end_time(job.end),
                duration=duration(job.start, job.end, now),
                status=application_state(job.status),
                jobs={job.status: 1},
            )
            for job in jobs
        ]
    )


def application_answer(job: JobDetails, now: Millis) -> ApplicationAnswer:
    stamps = dict.fromkeys(APPLICATION_STATES, 0)
    for status, at in sorted(job.timestamps.items(), key=lambda stamp: stamp[1], reverse=True):
        stamps[application_state(status)] = at
    return ApplicationAnswer(
        id=job.job_id,
        name=_name(job.name),
        status=application_state(job.status),
        start_time=job.start,
        end_time=end_time(job.end),
        duration=duration(job.start, job.end, now),
        timestamps=stamps,
        jobs=[job_overview(summary_of(job), now)],
    )


def exceptions_answer(job: JobDetails) -> ApplicationExceptions:
    """The failure that ended the application; failures that the job survived are not part of it."""
    last = job.failures[:1] if job.status is JobStatus.FAILED else ()
    return ApplicationExceptions(
        exception_history=ApplicationExceptionHistory(
            entries=[
                ApplicationException(
                    exception_name=record.failure.error,
                    stacktrace=stack_trace(record.failure),
                    timestamp=record.at,
                    job_id=job.job_id,
                )
                for record in last
            ]
        )
    )


_APPLICATION = "/applications/{applicationid}"


async def _load_job(services: RestServices, applicationid: str) -> JobDetails:
    job_id = parse_application_id(applicationid)
    dispatcher = await services.dispatcher()
    return await dispatcher.job_details(job_id)


@get("/applications/overview", needs=Permission.READ, summary="All applications")
async def overview_of_applications(services: RestServices) -> Applications:
    snapshot = await services.job_list_snapshot()
    return applications_answer(snapshot.jobs.all_jobs(), services.clock())


@get(_APPLICATION, needs=Permission.QUERY, summary="One application with its job")
async def application(applicationid: str, services: RestServices) -> ApplicationAnswer:
    job = await _load_job(services, applicationid)
    return application_answer(job, services.clock())


@get(
    f"{_APPLICATION}/exceptions",
    needs=Permission.QUERY,
    summary="The failure that ended an application",
)
async def application_exceptions(
    applicationid: str, services: RestServices
) -> ApplicationExceptions:
    job = await _load_job(services, applicationid)
    return exceptions_answer(without_secrets(job))


@get(
    f"{_APPLICATION}/jobmanager/config",
    needs=Permission.QUERY,
    summary="Configuration of the master of an application",
)
async def application_config(
    applicationid: str, services: RestServices
) -> list[ConfigurationEntry]:
    await _load_job(services, applicationid)
    return configuration_entries(services.configuration)


@post(
    f"{_APPLICATION}/cancel",
    needs=Permission.CONTROL,
    status=202,
    summary="Cancel the job of an application",
)
async def cancel_application(applicationid: str, services: RestServices) -> Nothing:
    job_id = parse_application_id(applicationid)
    dispatcher = await services.dispatcher()
    await dispatcher.cancel_job(job_id)
    return Nothing()


APPLICATION_HANDLERS = (
    overview_of_applications,
    application,
    application_exceptions,
    application_config,
    cancel_application,
)
