"""Summaries of jobs: what a job waits for, and the slots that it holds."""

import pytest

from stoker.core.graph import JobType
from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.results import (
    AttemptDetails,
    JobDetails,
    RegionDetails,
    slots_held,
    summary_of,
)
from stoker.core.states import ExecutionState, JobStatus


def details(
    *states: ExecutionState, status: JobStatus = JobStatus.RUNNING, waiting: str | None = None
) -> JobDetails:
    return JobDetails(
        job_id=JobId("0" * 32),
        name="job",
        job_type=JobType.BATCH,
        status=status,
        timestamps={},
        start=0,
        waiting=waiting,
        regions=tuple(
            RegionDetails(
                id=RegionId(f"r{number}"),
                vertices=(),
                streaming=False,
                current=AttemptDetails(attempt=AttemptId("a"), number=0, state=state),
            )
            for number, state in enumerate(states)
        ),
    )


@pytest.mark.parametrize(
    ("job", "waits_for", "slots"),
    [
        (details(ExecutionState.SCHEDULED, ExecutionState.CREATED), "a slot", 0),
        (details(ExecutionState.FINISHED, ExecutionState.SCHEDULED), "a slot", 0),
        (details(ExecutionState.RUNNING, ExecutionState.SCHEDULED), "", 1),
        (details(ExecutionState.DEPLOYING, ExecutionState.RUNNING), "", 2),
        (details(ExecutionState.CREATED), "", 0),
        (details(status=JobStatus.INITIALIZING, waiting="its queue is full"), "its turn", 0),
        (details(status=JobStatus.INITIALIZING), "", 0),
        (details(ExecutionState.SCHEDULED, status=JobStatus.FAILED), "", 0),
    ],
)
def test_a_job_without_a_slot_says_what_it_waits_for(
    job: JobDetails, waits_for: str, slots: int
) -> None:
    summary = summary_of(job)
    assert (summary.waits_for, slots_held(summary)) == (waits_for, slots)
