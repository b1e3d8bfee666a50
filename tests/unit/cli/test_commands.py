"""Commands against a real REST server with jobs in memory."""

import asyncio
import json
import os
import re
from pathlib import Path

import msgspec
import pytest

from instant_savepoints import InstantSavepoints
from stoker.core.graph import ResourceProfile
from stoker.core.ids import AttemptId, JobId
from stoker.core.spark_paths import describe_directory
from stoker.core.states import JobStatus
from stoker.gateways.attempt_logs import LogPiece, LogStream
from stoker.osproc.process_tree import start_time
from stoker.processes.local.cluster_state import (
    ClusterState,
    ProcessRecord,
    default_directory,
    socket_of,
    write_state,
)
from stoker.rest.jobs import checkpoint_handlers
from stoker.rest.options import RestOptions
from stoker.testing.rest import DispatcherInMemory, Master
from stoker.testing.sample_jobs import (
    CANCELED,
    FAILED,
    FINISHED,
    NEW,
    RUNNING,
    STREAM,
    UNKNOWN,
    streaming_details,
)

JOB = """
name: copy
sources:
  numbers: {format: json, path: in}
sinks:
  copies: {input: numbers, format: json, path: /data/out}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yml"
    path.write_text(JOB)
    return path


async def test_list_shows_jobs_that_have_not_ended(served) -> None:
    result = await served("list")
    assert result.exit_code == 0
    assert RUNNING[:12] in result.stdout
    assert FINISHED[:12] not in result.stdout


async def test_list_all_shows_every_job(served) -> None:
    output = (await served("list", "--all")).stdout
    assert all(job[:12] in output for job in (RUNNING, FINISHED, FAILED, CANCELED))


async def test_list_and_status_show_the_owner_of_a_job(served) -> None:
    jobs = served.master.dispatcher.jobs
    jobs[RUNNING] = msgspec.structs.replace(jobs[RUNNING], owner="ana")
    assert re.search(rf"{RUNNING[:12]}.* ana$", (await served("list")).stdout, re.MULTILINE)
    assert re.search(r"^owner: +ana$", (await served("status", RUNNING)).stdout, re.MULTILINE)
    assert "owner:" not in (await served("status", FINISHED)).stdout


async def test_list_has_the_short_flags_of_flink(served) -> None:
    served.master.dispatcher.set_status(FINISHED, JobStatus.CREATED)
    shown = {flag: (await served("list", flag)).stdout for flag in ("-a", "-r", "-s")}
    found = {
        flag: [job for job in (RUNNING, FINISHED, FAILED, CANCELED) if job[:12] in output]
        for flag, output in shown.items()
    }
    assert found == {
        "-a": [RUNNING, FINISHED, FAILED, CANCELED],
        "-r": [RUNNING],
        "-s": [FINISHED],
    }


async def test_list_points_to_its_option_all_when_every_job_has_ended(served) -> None:
    served.master.dispatcher.set_status(RUNNING, JobStatus.FINISHED)
    assert "stoker list --all" in (await served("list")).stdout


async def test_list_answers_in_json(served) -> None:
    (job,) = json.loads((await served("list", "--running", "--json")).stdout)
    assert (job["jid"], job["state"]) == (RUNNING, "RUNNING")


async def test_options_may_stand_before_and_after_the_command(served) -> None:
    before = await served("--json", "list")
    after = await served("list", "--json")
    assert json.loads(before.stdout) == json.loads(after.stdout)


async def test_the_master_is_found_in_the_environment(served, monkeypatch) -> None:
    monkeypatch.setenv("STOKER_MASTER", served.url)
    assert RUNNING[:12] in (await asyncio.to_thread(served.stoker, "list")).stdout


async def test_the_master_is_found_in_the_configuration_file(served) -> None:
    Path("stoker.yml").write_text(f"client:\n  master: {served.url}\n")
    assert RUNNING[:12] in (await asyncio.to_thread(served.stoker, "list")).stdout


async def test_the_master_of_a_running_local_cluster_is_found_at_its_socket(stoker) -> None:
    directory = default_directory()
    place = socket_of(directory, "master-1")
    place.parent.mkdir(parents=True)
    (directory / "work" / "master-1").mkdir(parents=True)
    write_state(directory, ClusterState(masters=(_own_process(),)))
    async with Master(options=RestOptions(bind_port="0", socket=place)).serving():
        # Nobody listens at the port.
        address = {"pid": os.getpid(), "rest_url": "http://127.0.0.1:1"}
        (directory / "work" / "master-1" / "master.json").write_text(json.dumps(address))
        assert RUNNING[:12] in (await asyncio.to_thread(stoker, "list")).stdout


@pytest.mark.parametrize(
    "command",
    ["list", "run job.sql", "run -d job.sql", "upgrade clicks job.sql", "rescale clicks 4"],
)
def test_no_command_goes_on_with_another_cluster_when_the_local_one_died(stoker, command) -> None:
    """Above all `run`: a cluster for this command alone would take the job's record with it."""
    dead = ProcessRecord(name="master-1", pid=os.getpid(), started=1, log="")
    default_directory().mkdir(parents=True)
    write_state(default_directory(), ClusterState(masters=(dead,)))
    Path("job.sql").write_text("SELECT 1")
    result = stoker(*command.split())
    assert result.exit_code == 1
    assert f"master-1 (pid {dead.pid}) died; bring it back with: stoker cluster up" in result.stderr
    assert "No cluster is named" not in result.stderr
    assert "died" in stoker("cluster", "status").stdout


def _own_process() -> ProcessRecord:
    started = start_time(os.getpid())
    assert started is not None
    return ProcessRecord(name="master-1", pid=os.getpid(), started=started, log="")


async def test_a_job_can_be_named_by_a_prefix_of_its_id(served) -> None:
    result = await served("status", "33")
    assert f"job:       {FAILED}" in result.stdout
    assert "state:     FAILED" in result.stdout


async def test_the_status_of_a_failed_job_names_place_and_reason(served) -> None:
    output = (await served("status", FAILED)).stdout
    assert "AnalysisException: no column number 2" in output
    assert "region big" not in output.partition("AnalysisException")[2]
    traced = (await served("status", FAILED, "--trace")).stdout
    assert "  region big, attempt 3, on task-executor-0badcafe" in traced


async def test_the_status_shows_each_region_with_its_progress(served) -> None:
    output = (await served("status", RUNNING)).stdout
    (line,) = [line for line in output.splitlines() if line.startswith("small")]
    assert "2/4 tasks" in line


async def test_the_status_answers_in_json(served) -> None:
    details = json.loads((await served("status", RUNNING, "--json")).stdout)
    assert details["status"] == "RUNNING"
    assert "hunter2" not in str(details)


async def test_an_unknown_job_is_named(served) -> None:
    result = await served("status", UNKNOWN)
    assert result.exit_code == 1
    assert UNKNOWN in result.stderr


async def test_an_unknown_id_prefix_is_refused_with_a_remedy(served) -> None:
    result = await served("cancel", "abc")
    assert result.exit_code == 1
    assert "stoker list --all" in result.stderr


async def test_an_ambiguous_id_prefix_is_refused_with_the_matching_jobs(served) -> None:
    other = RUNNING[:4] + "0" * 28
    served.master.dispatcher.set_status(other, JobStatus.RUNNING)
    result = await served("status", RUNNING[:4])
    assert result.exit_code == 1
    assert "several ids begin with 1111" in result.stderr
    assert other in result.stderr


async def test_cancel_without_waiting_returns_when_the_request_is_recorded(served) -> None:
    result = await served("cancel", "1111", "--no-wait")
    assert result.exit_code == 0
    assert served.master.dispatcher.cancelled == [RUNNING]


async def test_cancel_of_a_job_that_finished_is_an_error(served) -> None:
    result = await served("cancel", FINISHED)
    assert result.exit_code == 1
    assert "FINISHED" in result.stderr


@pytest.mark.parametrize(
    ("job_id", "code"), [(FINISHED, 0), (FAILED, 1), (CANCELED, 1)], ids=["ok", "failed", "gone"]
)
async def test_the_exit_code_of_wait_depends_on_how_the_job_ended(served, job_id, code) -> None:
    assert (await served("wait", job_id)).exit_code == code


async def test_a_detached_run_prints_the_id_and_how_to_follow(served, job: Path) -> None:
    result = await served("run", "-d", job, "--job-id", NEW)
    assert result.stdout == f"{NEW}\n"
    assert f"stoker wait {NEW[:12]}" in result.stderr


async def test_relative_paths_start_at_the_current_directory(served, job: Path) -> None:
    await served("run", "-d", job, "--job-id", NEW)
    graph = served.master.dispatcher.graphs[NEW]
    assert graph.caller == describe_directory(Path.cwd())
    assert graph.vertex("copies").write.path == "/data/out"


async def test_files_named_on_the_command_line_are_submitted_with_the_job(
    served, job: Path, tmp_path: Path
) -> None:
    (tmp_path / "extra.py").write_text("answer = 42\n")
    result = await served("run", "-d", job, "--job-id", NEW, "--py-file", tmp_path / "extra.py")
    assert result.exit_code == 0
    (artifact,) = served.master.dispatcher.graphs[NEW].artifacts
    assert artifact.name == "extra.py"
    assert served.master.blobs.content[NEW, artifact.sha256] == b"answer = 42\n"


async def test_name_and_settings_of_the_command_line_win(served, job: Path) -> None:
    await served("run", "-d", job, "--job-id", NEW, "--name", "mine", "--conf", "spark.x=1")
    graph = served.master.dispatcher.graphs[NEW]
    assert graph.name == "mine"
    assert graph.configuration == {"spark.x": "1"}


async def test_queue_priority_and_resources_can_be_set_for_any_script(
    served, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(1)\n")
    asked = ("--queue", "nightly", "--priority", "7", "--slots", "1", "--memory", "2gb")
    result = await served("run", "-d", script, "--job-id", NEW, *asked)
    assert result.exit_code == 0, result.stderr
    graph = served.master.dispatcher.graphs[NEW]
    assert (graph.queue, graph.priority, graph.slots) == ("nightly", 7, 1)
    assert graph.profile == ResourceProfile(memory_bytes=2 * 2**30)
    for option, wrong, told in (
        ("--memory", "much", "give a size"),
        ("--slots", "0", "at least 1"),
        ("--queue", "two words", "not the name of a queue"),
    ):
        result = await served("run", "-d", script, option, wrong)
        assert result.exit_code == 1
        assert told in result.stderr


async def test_a_job_that_has_already_ended_is_refused(served, job: Path) -> None:
    result = await served("run", job, "--job-id", FINISHED)
    assert result.exit_code == 1
    assert "has already ended" in result.stderr


async def test_info_prints_the_graph_as_text_and_as_json(served, job: Path) -> None:
    assert "copies  sink: json /data/out" in (await served("info", job)).stdout
    graph = json.loads((await served("info", job, "--json")).stdout)
    assert graph["name"] == "copy"


def test_stopping_a_missing_local_cluster_is_no_error(stoker) -> None:
    result = stoker("cluster", "down")
    assert result.exit_code == 0
    assert "No local cluster runs" in result.stderr
    assert not default_directory().exists()


def test_the_status_of_a_missing_local_cluster_is_empty(stoker) -> None:
    assert stoker("cluster", "status").exit_code == 1
    assert json.loads(stoker("cluster", "status", "--json").stdout)["processes"] == []


async def test_a_job_is_cancelled_with_a_savepoint(served) -> None:
    dispatcher = served.master.dispatcher = InstantSavepoints()
    result = await served("cancel", "-s", "saved", RUNNING)
    assert result.exit_code == 0
    assert "Savepoint: /saved/one" in result.stderr
    assert f"Job {RUNNING} is CANCELED." in result.stdout
    [request] = dispatcher.requests
    assert (request.cancel, request.directory) == (True, str(Path("saved").absolute()))


async def test_checkpoint_trigger_waits_for_the_next_checkpoint_of_a_stream(
    served, monkeypatch
) -> None:
    job = streaming_details()
    served.master.dispatcher.jobs[STREAM] = job
    committed = iter([False, True])
    monkeypatch.setattr(checkpoint_handlers, "_POLL_SECONDS", 0)
    monkeypatch.setattr(checkpoint_handlers, "has_committed_since", lambda *_: next(committed))
    number = job.checkpoints.latest_completed.id
    result = await served("checkpoint", "trigger", STREAM, "--json")
    assert json.loads(result.stdout) == {"job_id": STREAM, "checkpoint": number}


async def test_a_checkpoint_of_a_batch_job_is_refused(served) -> None:
    result = await served("checkpoint", "trigger", RUNNING)
    assert result.exit_code == 1
    assert "checkpoint" in result.stderr


class DispatcherWithLog(DispatcherInMemory):
    """A dispatcher that serves the log of an attempt in pieces; one piece ends inside a letter."""

    async def read_attempt_log(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        content = f"sch\u00f6n {stream}\n".encode()
        piece = content[offset : offset + 4]
        return LogPiece(data=piece, complete=offset + len(piece) >= len(content))


async def test_logs_of_all_regions_are_printed_unchanged_or_as_lines_of_json(served) -> None:
    """The job has two regions."""
    served.master.dispatcher = DispatcherWithLog()
    plain = await served("logs", FINISHED, "--stderr")
    told = await served("logs", FINISHED, "--json", "--follow")
    assert plain.stdout_bytes.decode() == 2 * "sch\u00f6n stderr\n"
    pieces = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(pieces) > 1
    texts = "".join(each["text"] for each in pieces)
    assert texts == 2 * "sch\u00f6n stdout\n"
    assert {each["stream"] for each in pieces} == {"stdout"}
