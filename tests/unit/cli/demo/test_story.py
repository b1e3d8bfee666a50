"""What the demo prints and reports."""

import io
import json

import msgspec
import pytest
from rich.console import Console

from stoker.cli.demo.story import Story
from stoker.core.errors import StokerError
from stoker.core.states import ExecutionState, JobStatus
from stoker.testing.sample_jobs import FAILED, FINISHED, job_details


def test_the_outcome_names_the_jobs_and_whether_the_query_continued() -> None:
    told = io.StringIO()
    story = Story(Console(file=told))
    details = job_details(FINISHED, JobStatus.FINISHED, ExecutionState.FINISHED)
    story._show_end(details)
    story._compare_runs(details, details)
    story.end()
    outcome = json.loads(msgspec.json.encode(story.outcome))
    assert outcome["jobs"] == [{"job_id": FINISHED, "name": details.name, "state": "FINISHED"}]
    assert outcome["same_run_after_kill"] is any(
        region.current.progress.run_id for region in details.regions
    )
    assert outcome["seconds"] >= 0
    assert "That was Stoker" in told.getvalue()


def test_the_demo_fails_when_one_of_its_jobs_fails() -> None:
    story = Story(Console(file=io.StringIO()))
    with pytest.raises(StokerError, match="the demo failed"):
        story._show_end(job_details(FAILED, JobStatus.FAILED, ExecutionState.FAILED))
    assert story.outcome["jobs"] == []
