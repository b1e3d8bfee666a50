"""The event log of real masters: one is killed as it accepts jobs; the next one tells of all."""

from collections import Counter
from pathlib import Path

import pytest

from builders import build_graph
from integration.processes.separate_processes import (
    PATIENCE,
    WITHOUT_SPARK,
    process_of,
    url_of,
)
from stoker.client.blocking import BlockingClient
from stoker.client.calls import EventFilter
from stoker.client.operations import newest_events, next_events
from stoker.core.graph import JobGraph
from stoker.core.ids import Ids
from stoker.core.states import JobStatus

SETTINGS = {"taskmanager.numberOfTaskSlots": "10"}
IDS = Ids()


def graph() -> JobGraph:
    return build_graph(job_id=IDS.job(), name="told", configuration={"fake.seconds": "0.1"})


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_a_master_that_ends_leaves_no_job_untold(tmp_path: Path, end: str) -> None:
    """One that is stopped writes its last events itself."""
    with process_of(tmp_path, "master", "master") as first:
        with BlockingClient(url_of(tmp_path, "master", first)) as client:
            jobs = {client.submit(graph()).job_id for _ in range(20)}
        getattr(first, end)()
        first.wait(PATIENCE)
    with (
        process_of(tmp_path, "master", "master") as second,
        process_of(tmp_path, "task-executor", "light", settings=SETTINGS, program=WITHOUT_SPARK),
        BlockingClient(url_of(tmp_path, "master", second)) as client,
    ):
        for each in jobs:
            assert client.wait(each) is JobStatus.FINISHED
        ends = EventFilter(kinds=("job-finished",))
        # The events of the last ends follow them by a moment.
        while sum(len(page.events) for page in client.run(newest_events(ends, 100))) < len(jobs):
            last = client.events(limit=1).last
            client.run(next_events(EventFilter(after=last)))
        pages = client.run(newest_events(EventFilter(), 1000))
    events = [event for page in pages for event in page.events]
    told = Counter((event.job, event.kind) for event in events if event.job)
    for kind in ("job-submitted", "job-finished"):
        assert {job for job, each in told if each == kind} == jobs
        assert all(told[job, kind] == 1 for job in jobs)
    if end == "terminate":
        assert not [event for event in events if "late" in event.data]
    leaders = [event for event in events if event.kind == "leader-changed"]
    assert [event.data["epoch"] for event in reversed(leaders)][-1] == 1
