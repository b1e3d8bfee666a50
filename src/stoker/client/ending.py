"""How the end of a job is told to a program."""

from stoker.core.errors import JobFailed
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus


def failure_of(details: JobDetails) -> JobFailed | None:
    """None for a job that finished."""
    match details.status:
        case JobStatus.FINISHED:
            return None
        case JobStatus.FAILED if details.failures:
            failure = details.failures[0].failure
            reason = f"{failure.error}: {failure.message}"
        case status:
            reason = f"it ended as {status}"
    return JobFailed(
        f"job {details.name} ({details.job_id}): {reason}",
        job_id=details.job_id,
        status=details.status.value,
    )
