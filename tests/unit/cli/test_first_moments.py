"""What commands say of a job in its first moments, of one that failed, and of its restarts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from instant_savepoints import InstantSavepoints
from stoker.api.jobs import TaskCounts
from stoker.cli.commands.list import tasks_text
from stoker.cli.savepoint_texts import continuation_text
from stoker.core.checkpoints import SavepointRequest
from stoker.core.graph import JobGraph
from stoker.core.ids import AttemptId, JobId
from stoker.core.results import JobDetails, Progress
from stoker.core.states import ExecutionState, JobStatus
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.gateways.dispatcher import Submitted
from stoker.testing.rest import DispatcherInMemory
from stoker.testing.sample_jobs import (
    FAILED,
    FINISHED,
    NEW,
    STREAM,
    job_details,
    streaming_details,
)
from unit.cli.test_commands import JOB


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yml"
    path.write_text(JOB)
    return path


class FailsAtOnce(DispatcherInMemory):
    """Jobs fail soon after they were accepted, after they have printed something."""

    async def submit_job(self, graph: JobGraph, *rest: Any) -> Submitted:
        submitted = await super().submit_job(graph, *rest)
        failed = job_details(graph.job_id, JobStatus.FAILED, ExecutionState.FAILED)
        asyncio.get_running_loop().call_later(0.2, self.jobs.__setitem__, graph.job_id, failed)
        self.jobs[graph.job_id] = idle(graph.job_id)
        return submitted

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        return LogPiece(data=b"hello" if stream == "stderr" else b"", complete=True)


class AcceptsAs(DispatcherInMemory):
    """Every job is in this state once it is accepted."""

    def __init__(self, details: JobDetails) -> None:
        super().__init__()
        self.details = details

    async def submit_job(self, graph: JobGraph, *rest: Any) -> Submitted:
        submitted = await super().submit_job(graph, *rest)
        self.jobs[graph.job_id] = self.details
        return submitted


def idle(job_id: JobId) -> JobDetails:
    """A job that runs and shows no work yet."""
    details = job_details(job_id, JobStatus.RUNNING, ExecutionState.RUNNING)
    (region,) = details.regions[:1]
    attempt = msgspec.structs.replace(region.current, progress=Progress())
    return msgspec.structs.replace(
        details, regions=(msgspec.structs.replace(region, current=attempt),)
    )


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A detached run watches its job for as long as a busy machine may need."""
    monkeypatch.setattr("stoker.cli.commands.run.DETACHED_SECONDS", 60)


@pytest.mark.usefixtures("unhurried")
async def test_a_detached_run_reports_a_job_that_fails_at_once(served, job: Path) -> None:
    served.master.dispatcher = FailsAtOnce()
    result = await served("run", "-d", job, "--job-id", NEW)
    assert result.exit_code == 1
    assert result.stdout == f"{NEW}\n"
    assert "FAILED" in result.stderr
    assert f"What it printed: stoker logs {NEW[:12]} --stderr" in result.stderr
    told = await served("run", "-d", job, "--job-id", "9" * 32, "--json")
    assert told.exit_code == 1
    assert json.loads(told.stdout)["status"] == "FAILED"


@pytest.mark.usefixtures("unhurried")
async def test_a_detached_run_returns_when_the_job_waits(served, job: Path) -> None:
    waiting = msgspec.structs.replace(idle(NEW), waiting="needs 1 slot, 0 free")
    served.master.dispatcher = AcceptsAs(waiting)
    result = await served("run", "-d", job, "--job-id", NEW)
    assert result.exit_code == 0
    assert "It waits: needs 1 slot, 0 free." in result.stderr
    assert f"stoker logs -f {NEW[:12]}" in result.stderr


async def test_a_detached_run_leaves_a_slow_job_alone(served, job: Path, monkeypatch) -> None:
    monkeypatch.setattr("stoker.cli.commands.run.DETACHED_SECONDS", 0)
    served.master.dispatcher = AcceptsAs(idle(NEW))
    result = await served("run", "-d", job, "--job-id", NEW)
    assert result.exit_code == 0
    assert "is RUNNING" in result.stderr


class StartsSlowly(InstantSavepoints):
    """The stream gets its task only after it was asked for a few times."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def job_details(self, job_id: JobId) -> JobDetails:
        details = await super().job_details(job_id)
        self.asked += 1
        if self.asked > 3 or details.status.globally_terminal:
            return details
        regions = tuple(
            msgspec.structs.replace(
                region,
                current=msgspec.structs.replace(region.current, state=ExecutionState.DEPLOYING),
            )
            for region in details.regions
        )
        return msgspec.structs.replace(details, regions=regions)

    async def trigger_savepoint(
        self, job_id: JobId, trigger_id: str, request: SavepointRequest
    ) -> None:
        assert self.asked > 3, "asked before the stream ran"
        await super().trigger_savepoint(job_id, trigger_id, request)
        self.set_status(job_id, JobStatus.FINISHED)


async def test_stop_waits_for_a_stream_that_has_only_just_been_submitted(served) -> None:
    served.master.dispatcher = StartsSlowly()
    served.master.dispatcher.jobs[STREAM] = streaming_details()
    result = await served("stop", STREAM)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "/saved/one\n"


async def test_stop_announces_nothing_for_a_job_that_has_ended(served) -> None:
    """Its refusal follows, with the reason for which the job ended."""
    served.master.dispatcher = InstantSavepoints()
    assert "Stopping job" not in (await served("stop", FAILED)).stderr


def test_a_continued_run_says_whether_it_starts_from_a_savepoint_or_a_checkpoint() -> None:
    assert "the savepoint at the end of that run: /s/savepoint-1\n" in continuation_text(
        "/s/savepoint-1"
    )
    assert "the last checkpoint of that run: /c/checkpoint-1\n" in continuation_text(
        "/c/checkpoint-1"
    )


async def test_a_failed_job_points_to_what_it_printed(served) -> None:
    served.master.dispatcher = FailsAtOnce()
    hint = f"What it printed: stoker logs {FAILED[:12]} --stderr"
    assert hint in (await served("status", FAILED)).stdout
    assert hint in (await served("wait", FAILED)).stderr
    assert "What it printed" not in (await served("status", FINISHED)).stdout


async def test_logs_say_where_the_output_is_if_there_is_none_here(served) -> None:
    served.master.dispatcher = FailsAtOnce()
    result = await served("logs", FAILED)
    assert result.stdout == ""
    assert f"stoker logs {FAILED[:12]} --stderr" in result.stderr


@pytest.mark.parametrize(
    ("tasks", "ended", "text"),
    [
        (TaskCounts(), False, "-"),
        (TaskCounts(total=1, running=1), False, "1/1 running"),
        (TaskCounts(total=3, running=1, finished=2), False, "1/3 running, 2 done"),
        (TaskCounts(total=3, finished=2, failed=1), True, "2/3 done"),
    ],
)
def test_the_list_counts_the_tasks_that_run(tasks: TaskCounts, ended: bool, text: str) -> None:
    assert tasks_text(tasks, ended=ended) == text


async def test_the_list_shows_how_often_tasks_were_started_again(served) -> None:
    job = streaming_details()
    regions = tuple(
        msgspec.structs.replace(
            region, current=msgspec.structs.replace(region.current, number=number)
        )
        for number, region in enumerate(job.regions, 2)
    )
    served.master.dispatcher.jobs[STREAM] = msgspec.structs.replace(job, regions=regions)
    head, *rows = (await served("list")).stdout.splitlines()
    (row,) = [row for row in rows if row.startswith(STREAM[:12])]
    at = head.index("RESTARTS")
    assert row[at : at + 8].strip() == str(sum(region.current.number for region in regions))
    assert " running" in row
