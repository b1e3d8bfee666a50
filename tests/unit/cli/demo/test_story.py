"""What the demo prints and reports."""

import io
import json

import msgspec
import pytest
from rich.console import Console

from stoker.cli.demo.story import Story
from stoker.core.errors import StokerError
from stoker.core.results import JobDetails, Progress
from stoker.core.states import ExecutionState, JobStatus
from stoker.testing.sample_jobs import FAILED, FINISHED, job_details


def stream_with_run(run_id: str) -> JobDetails:
    details = job_details(FINISHED, JobStatus.FINISHED, ExecutionState.FINISHED)
    (region, *_) = details.regions
    attempt = msgspec.structs.replace(region.current, progress=Progress(run_id=run_id))
    return msgspec.structs.replace(
        details, regions=(msgspec.structs.replace(region, current=attempt),)
    )


@pytest.mark.parametrize(("run_after_kill", "is_same"), [("one", True), ("two", False)])
def test_the_outcome_names_the_jobs_and_whether_the_query_continued(
    run_after_kill: str, is_same: bool
) -> None:
    told = io.StringIO()
    story = Story(Console(file=told))
    details = stream_with_run(run_after_kill)
    story._compare_runs(stream_with_run("one"), details)
    story._show_end(details)
    story.end()
    outcome = json.loads(msgspec.json.encode(story.outcome))
    assert outcome["jobs"] == [{"job_id": FINISHED, "name": details.name, "state": "FINISHED"}]
    assert outcome["same_run_after_kill"] is is_same
    assert ("still the same run" in told.getvalue()) is is_same
    assert outcome["seconds"] >= 0
    assert "That was Stoker" in told.getvalue()


def test_the_demo_fails_when_one_of_its_jobs_fails() -> None:
    story = Story(Console(file=io.StringIO()))
    with pytest.raises(StokerError, match="the demo failed"):
        story._show_end(job_details(FAILED, JobStatus.FAILED, ExecutionState.FAILED))
    assert story.outcome["jobs"] == []
