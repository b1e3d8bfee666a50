"""How a job ended, for people and as an exit code."""

from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.words import duration_text
from stoker.core.results import FailureRecord, JobDetails
from stoker.core.states import JobStatus

LONGEST_TRACE = 60
"""Lines of a stack trace that are shown."""


def exit_code_of(details: JobDetails) -> int:
    """Of a program that failed, its own."""
    if details.status is JobStatus.FINISHED:
        return OK
    if details.status is JobStatus.FAILED and details.failures:
        code = details.failures[0].failure.labels.get("exit-code", "")
        return int(code) if code.isdigit() and 0 < int(code) < 256 else FAILED
    return FAILED


def ending_text(details: JobDetails) -> str:
    """One line for a job that finished; the failure with its place for one that did not."""
    took = duration_text((details.end or details.start) - details.start)
    line = f"Job {details.job_id} ({details.name}) {details.status.value} after {took}."
    if details.status is not JobStatus.FAILED or not details.failures:
        return line
    return f"{line}\n\n{failure_text(details.failures[0])}"


def failure_text(record: FailureRecord) -> str:
    failure = record.failure
    place = f"Failure in region {record.region}" if record.region else "Failure of the job"
    facts = [f"attempt {record.attempt_number + 1}"] if record.region else []
    facts += [f"on {record.task_executor}"] if record.task_executor else []
    where = f"{place} ({' '.join(facts)})" if facts else place
    first = f"{failure.error}: {failure.message}".strip()
    trace = _trace_without(failure.stack_trace, first)
    return f"{where}:\n{first}" + (f"\n\n{trace}" if trace else "")


def _trace_without(trace: str, message: str) -> str:
    """The stack trace, unless it is nothing but the message again; very long ones are cut."""
    lines = trace.rstrip().splitlines()
    if len(lines) <= 1 or trace.strip() == message:
        return ""
    if len(lines) > LONGEST_TRACE:
        left_out = len(lines) - LONGEST_TRACE
        lines = [*lines[:LONGEST_TRACE], f"… {left_out} more lines (stoker status --json)"]
    return "\n".join(lines)
