"""States of jobs and of attempts, and the transitions that are allowed."""

from enum import StrEnum


class ApplicationStatus(StrEnum):
    """How a whole cluster ended, after its shutdown."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    UNKNOWN = "UNKNOWN"


class JobStatus(StrEnum):
    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"

    @property
    def globally_terminal(self) -> bool:
        """The job has ended for good: its recovery records may be removed."""
        return self in _GLOBALLY_TERMINAL

    @property
    def terminal(self) -> bool:
        """This process does nothing more for the job. After SUSPENDED another process may."""
        return self.globally_terminal or self is JobStatus.SUSPENDED


_GLOBALLY_TERMINAL = frozenset({JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED})

JOB_TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.INITIALIZING: frozenset(
        {JobStatus.CREATED, JobStatus.CANCELLING, JobStatus.FAILED, JobStatus.SUSPENDED}
    ),
    JobStatus.CREATED: frozenset(
        {
            JobStatus.RUNNING,
            JobStatus.RECONCILING,
            JobStatus.CANCELLING,
            JobStatus.FAILING,
            JobStatus.SUSPENDED,
        }
    ),
    JobStatus.RECONCILING: frozenset(
        {JobStatus.RUNNING, JobStatus.CANCELLING, JobStatus.FAILING, JobStatus.SUSPENDED}
    ),
    JobStatus.RUNNING: frozenset(
        {
            JobStatus.FINISHED,
            JobStatus.RESTARTING,
            JobStatus.CANCELLING,
            JobStatus.FAILING,
            JobStatus.SUSPENDED,
        }
    ),
    JobStatus.RESTARTING: frozenset(
        {JobStatus.RUNNING, JobStatus.CANCELLING, JobStatus.FAILING, JobStatus.SUSPENDED}
    ),
    JobStatus.FAILING: frozenset({JobStatus.FAILED, JobStatus.CANCELLING, JobStatus.SUSPENDED}),
    JobStatus.CANCELLING: frozenset(
        {JobStatus.CANCELED, JobStatus.FAILED, JobStatus.FAILING, JobStatus.SUSPENDED}
    ),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELED: frozenset(),
    JobStatus.FINISHED: frozenset(),
    JobStatus.SUSPENDED: frozenset(),
}


class ExecutionState(StrEnum):
    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    RECONCILING = "RECONCILING"

    @property
    def terminal(self) -> bool:
        return self in _EXECUTION_TERMINAL


_EXECUTION_TERMINAL = frozenset(
    {ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED}
)

EXECUTION_TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    ExecutionState.CREATED: frozenset(
        {
            ExecutionState.SCHEDULED,
            ExecutionState.RECONCILING,
            ExecutionState.CANCELED,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.SCHEDULED: frozenset(
        {ExecutionState.DEPLOYING, ExecutionState.CANCELED, ExecutionState.FAILED}
    ),
    # A previous leader deployed the attempt; its task executor is asked what became of it.
    ExecutionState.RECONCILING: frozenset(
        {
            ExecutionState.INITIALIZING,
            ExecutionState.RUNNING,
            ExecutionState.FINISHED,
            ExecutionState.CANCELING,
            ExecutionState.CANCELED,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.DEPLOYING: frozenset(
        {
            ExecutionState.INITIALIZING,
            ExecutionState.RUNNING,
            ExecutionState.FINISHED,
            ExecutionState.CANCELING,
            ExecutionState.CANCELED,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.INITIALIZING: frozenset(
        {
            ExecutionState.RUNNING,
            ExecutionState.FINISHED,
            ExecutionState.CANCELING,
            ExecutionState.CANCELED,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.RUNNING: frozenset(
        {
            ExecutionState.FINISHED,
            ExecutionState.CANCELING,
            ExecutionState.CANCELED,
            ExecutionState.FAILED,
        }
    ),
    ExecutionState.CANCELING: frozenset({ExecutionState.CANCELED}),
    ExecutionState.FINISHED: frozenset(),
    ExecutionState.CANCELED: frozenset(),
    ExecutionState.FAILED: frozenset(),
}
