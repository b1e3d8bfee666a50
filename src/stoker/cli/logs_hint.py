"""Points from a job to what it has printed, where there is something."""

from stoker.cli.display import before_failure
from stoker.client.blocking import BlockingClient
from stoker.core.errors import StokerError
from stoker.core.ids import AttemptId, JobId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

_FLAGS = {"stdout": "", "stderr": " --stderr"}


def logs_hint(client: BlockingClient, details: JobDetails) -> str | None:
    """Where to read what a failed job has printed; None if it printed nothing or did not fail."""
    if details.status is not JobStatus.FAILED:
        return None
    printed = [stream for stream in _FLAGS if has_printed(client, details, stream)]
    if not printed:
        return None
    commands = [f"stoker logs {details.job_id[:12]}{_FLAGS[stream]}" for stream in printed]
    return f"What it printed: {' and '.join(commands)}"


def has_printed(client: BlockingClient, details: JobDetails, stream: str) -> bool:
    """Whether the current attempts printed on the stream, not counting the failure itself."""
    return any(
        _has_attempt_printed(client, details.job_id, region.current.attempt, stream)
        for region in details.regions
        if region.current.attempt
    )


def _has_attempt_printed(
    client: BlockingClient, job_id: JobId, attempt: AttemptId, stream: str
) -> bool:
    try:
        piece = client.attempt_log(job_id, attempt, stream)
    except StokerError:
        # Only a hint is lost.
        return False
    return bool(before_failure(piece.data, complete=True)[0])
