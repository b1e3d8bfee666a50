"""Jobs and their failures in the form of Flink's API."""

from collections.abc import Iterable, Mapping

import msgspec

from stoker.api.jobs import (
    ExceptionEntry,
    ExecutionConfig,
    ExecutionResultAnswer,
    JobAnswer,
    JobConfig,
    JobExceptionHistory,
    JobExceptions,
    JobExecutionResult,
    JobIds,
    JobIdWithStatus,
    JobOverview,
    ResultStatus,
    TaskCounts,
)
from stoker.api.operations import COMPLETED, IN_PROGRESS, FailureCause
from stoker.core.errors import InvalidInput
from stoker.core.results import Failure, FailureRecord, JobDetails, JobResult, JobSummary
from stoker.core.states import JobStatus
from stoker.core.values import Millis
from stoker.rest.flink.java_throwable import failure_cause
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
        waits_for=job.waits_for or msgspec.UNSET,
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
        return ExecutionResultAnswer(status=ResultStatus(id=IN_PROGRESS))
    return ExecutionResultAnswer(
        status=ResultStatus(id=COMPLETED),
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


DEFAULT_EXCEPTIONS = 20


def job_exceptions(
    job: JobDetails, limit: int = DEFAULT_EXCEPTIONS, labels: Mapping[str, str] | None = None
) -> JobExceptions:
    """List the failures that have all the labels, newest first, at most `limit`."""
    wanted = (labels or {}).items()
    matching = [record for record in job.failures if wanted <= record.failure.labels.items()]
    return JobExceptions(
        exception_history=JobExceptionHistory(
            entries=[_entry(record) for record in matching[:limit]],
            truncated=len(matching) > limit,
        )
    )


def parse_labels(text: str | None) -> dict[str, str]:
    """Parse `key:value,key:value`, the form of the query parameter failureLabelFilter."""
    labels: dict[str, str] = {}
    for pair in (text or "").split(","):
        key, colon, value = pair.partition(":")
        if not pair:
            continue
        if not (key and colon and value):
            raise InvalidInput(f"failureLabelFilter must be key:value, found {pair!r}")
        labels[key] = value
    return labels


def _entry(record: FailureRecord) -> ExceptionEntry:
    executor = record.task_executor or msgspec.UNSET
    return ExceptionEntry(
        exception_name=record.failure.error,
        stacktrace=stack_trace(record.failure),
        timestamp=record.at,
        failure_labels=record.failure.labels,
        task_name=_task_name(record),
        endpoint=executor,
        task_manager_id=executor,
        concurrent_exceptions=[_entry(each) for each in record.concurrent],
    )


def _task_name(record: FailureRecord) -> str | msgspec.UnsetType:
    if record.region is None:
        return msgspec.UNSET
    return f"{record.region} (1/1) - execution #{record.attempt_number}"


def stack_trace(failure: Failure) -> str:
    """Stack trace with the message at its beginning, even when there is no stack."""
    headline = f"{failure.error}: {failure.message}"
    if not failure.stack_trace:
        text = headline
    elif failure.message in failure.stack_trace:
        text = failure.stack_trace
    else:
        text = f"{headline}\n{failure.stack_trace}"
    return f"{text}\nIt happened in {failure.place}" if failure.place else text
