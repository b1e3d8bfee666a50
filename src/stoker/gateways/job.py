"""What the dispatcher holds of a job that runs in its own process."""

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
    """The terminal state that the job master decided, once."""

    details: JobDetails
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True)
class JobToRun:
    graph: JobGraph
    submitted_at: int
    recovered: bool = False
    cancel_wanted: bool = False
    begun: bool = False
    """It has had its turn before: it does not queue again."""


class RunningJob(Protocol):
    @property
    def status(self) -> JobStatus:
        """As in its details, which take longer to make."""
        ...

    def details(self) -> JobDetails: ...

    def set_change_listener(self, tell: Callable[[], None]) -> None:
        """From now on, after each change of its status or of its tasks' states."""
        ...

    async def wait_for_change(self, known: JobStatus) -> JobStatus:
        """The status, as soon as it differs from the known one."""
        ...

    def cancel(self) -> None:
        """Begin to cancel; the caller has made the wish durable before."""
        ...

    async def savepoint(self, request: SavepointRequest) -> SavepointTaken:
        """Take one, and stop the job with it if that is wanted. Raises with the cause.

        CannotTakeSavepoint when the job is of the wrong kind or in the wrong state.
        """
        ...

    async def ended(self) -> JobEnd:
        """Wait for the job's terminal state."""
        ...


StartJob = Callable[[JobToRun], AbstractAsyncContextManager[RunningJob]]
"""Runs the job for as long as the context is open; leaving it early suspends the job."""
