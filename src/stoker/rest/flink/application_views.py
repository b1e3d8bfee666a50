"""Applications in the form of Flink 2.3: every job is an application with the id of the job."""

from collections.abc import Iterable

from stoker.api.flink import (
    APPLICATION_STATES,
    ApplicationAnswer,
    ApplicationException,
    ApplicationExceptionHistory,
    ApplicationExceptions,
    ApplicationOverview,
    Applications,
)
from stoker.core.results import (
    JobDetails,
    JobSummary,
    summary_of,
)
from stoker.core.states import JobStatus
from stoker.core.values import Millis
from stoker.rest.jobs.exception_views import stack_trace
from stoker.rest.jobs.job_views import job_overview
from stoker.rest.jobs.vertex_views import duration, end_time

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


def applications(jobs: Iterable[JobSummary], now: Millis) -> Applications:
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


def application(job: JobDetails, now: Millis) -> ApplicationAnswer:
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


def application_exceptions(job: JobDetails) -> ApplicationExceptions:
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
