"""The interface between the dispatcher and the job masters in its process."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from stoker.core.checkpoints import SavepointRequest, SavepointTaken
from stoker.core.graph import JobGraph
from stoker.core.results import Failure, JobDetails
from stoker.core.states import JobStatus


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """The terminal state of a job. The job master decides it once."""

    details: JobDetails
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True)
class JobToRun:
    graph: JobGraph
    submitted_at: int
    recovered: bool = False
    cancel_wanted: bool = False
    was_admitted: bool = False
    """The job had its turn under an earlier leader and does not queue again."""
    owner: str = ""


class RunningJob(Protocol):
    @property
    def status(self) -> JobStatus:
        """The status in `details`, which take longer to make."""
        ...

    def details(self) -> JobDetails: ...

    def set_change_listener(self, listener: Callable[[], None]) -> None:
        """Call it after each change of the status of the job or of the states of its tasks."""
        ...

    async def wait_for_change(self, known: JobStatus) -> JobStatus:
        """The status, as soon as it differs from the known one."""
        ...

    def cancel(self) -> None:
        """Begin to cancel. The caller has made the cancellation durable before."""
        ...

    async def savepoint(self, request: SavepointRequest) -> SavepointTaken:
        """Take a savepoint, and stop the job with it if the request says so.

        CannotTakeSavepoint when the job is of the wrong kind or in the wrong state.
        """
        ...

    async def wait_for_end(self) -> JobEnd:
        """Wait for the job's terminal state."""
        ...


StartJob = Callable[[JobToRun], AbstractAsyncContextManager[RunningJob]]
"""Runs the job for as long as the context is open; leaving it early suspends the job."""
