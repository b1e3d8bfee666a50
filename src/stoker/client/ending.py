"""How the end of a job is told to a program."""

from stoker.api.replacements import ReplacementState
from stoker.core.errors import JobFailed
from stoker.core.ids import JobId
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


def replaced_by(state: ReplacementState) -> JobId:
    """The job that has the place of the old one."""
    if not state.failed and not state.rolled_back:
        return state.job_id
    raise JobFailed(
        f"job {state.old_job_id} was not replaced, and job {state.job_id} stands for it: "
        f"{state.reason}",
        job_id=state.job_id,
        savepoint=state.savepoint,
    )
