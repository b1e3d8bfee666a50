"""Turn what the dispatcher knows about jobs into the answers of Flink's API."""

from collections.abc import Iterable

import msgspec

from stoker.api.jobs import (
    ExecutionConfig,
    ExecutionResultAnswer,
    JobAnswer,
    JobConfig,
    JobExecutionResult,
    JobIds,
    JobIdWithStatus,
    JobOverview,
    ResultStatus,
    TaskCounts,
)
from stoker.api.operations import FailureCause
from stoker.core.results import (
    Failure,
    JobDetails,
    JobResult,
    JobSummary,
)
from stoker.core.states import JobStatus
from stoker.core.values import Millis
from stoker.rest.flink.java_throwable import failure_cause
from stoker.rest.jobs.exception_views import stack_trace
from stoker.rest.jobs.plan_views import plan_of
from stoker.rest.jobs.vertex_views import count_states, duration, end_time, vertices_of
from stoker.security.redaction import masked

_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
}


def job_ids(jobs: Iterable[JobSummary]) -> JobIds:
    return JobIds(jobs=[JobIdWithStatus(id=job.job_id, status=job.status) for job in jobs])


def job_overview(job: JobSummary, now: Millis) -> JobOverview:
    counts = {state.value.lower(): count for state, count in job.tasks.items()}
    return JobOverview(
        jid=job.job_id,
        name=job.name,
        job_type=job.job_type,
        start_time=job.start,
        end_time=end_time(job.end),
        duration=duration(job.start, job.end, now),
        state=job.status,
        last_modification=job.last_change,
        tasks=TaskCounts(total=sum(job.tasks.values()), **counts),
    )


def job_answer(job: JobDetails, now: Millis) -> JobAnswer:
    vertices = vertices_of(job, now)
    return JobAnswer(
        jid=job.job_id,
        application_id=job.job_id,
        name=job.name,
        is_stoppable=False,
        state=job.status,
        job_type=job.job_type,
        start_time=job.start,
        end_time=end_time(job.end),
        duration=duration(job.start, job.end, now),
        now=now,
        timestamps={status: job.timestamps.get(status, 0) for status in JobStatus},
        vertices=vertices,
        status_counts=count_states(vertex.status for vertex in vertices),
        plan=plan_of(job),
    )


def job_config(job: JobDetails) -> JobConfig:
    return JobConfig(
        jid=job.job_id,
        name=job.name,
        execution_config=ExecutionConfig(
            restart_strategy="Cluster level default restart strategy",
            job_parallelism=max(1, len(job.regions)),
            user_config=masked(job.configuration | job.parameters),
        ),
    )


def execution_result(result: JobResult | None) -> ExecutionResultAnswer:
    if result is None:
        return ExecutionResultAnswer(status=ResultStatus(id="IN_PROGRESS"))
    return ExecutionResultAnswer(
        status=ResultStatus(id="COMPLETED"),
        job_execution_result=JobExecutionResult(
            id=result.job_id,
            name=result.name,
            application_status=_APPLICATION_STATUS.get(result.status, "UNKNOWN"),
            net_runtime=result.net_runtime,
            failure_cause=_failure_cause(result.failure),
            application_id=result.job_id,
            start_time=result.start,
            end_time=result.end,
        ),
    )


def _failure_cause(failure: Failure | None) -> FailureCause | msgspec.UnsetType:
    if failure is None:
        return msgspec.UNSET
    return failure_cause(failure.error, failure.message, stack_trace(failure))
