"""Failures of a job in the form of Flink's exception history."""

from collections.abc import Mapping

import msgspec

from stoker.api.jobs import ExceptionEntry, JobExceptionHistory, JobExceptions
from stoker.core.errors import InvalidInput
from stoker.core.results import Failure, FailureRecord, JobDetails

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
        return headline
    if failure.message in failure.stack_trace:
        return failure.stack_trace
    return f"{headline}\n{failure.stack_trace}"
