"""What the files of a local cluster reveal about its processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.api.cluster import ClusterOverviewAnswer
from stoker.core.errors import InvalidOption, StartupFailed, Unavailable
from stoker.osproc.process_tree import start_time
from stoker.processes.local.cluster import LocalCluster, stage_text
from stoker.processes.local.cluster_state import (
    MARK,
    ClusterState,
    ProcessRecord,
    previous_port_of,
    processes_of,
    read_state,
    reason_in,
    send,
    url_of,
    urls_of,
    wait_until_gone,
    write_state,
)


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, MARK: str(tmp_path)},
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def record(pid: int, *, started: int | None = None, name: str = "master-1") -> ProcessRecord:
    own = start_time(pid) or 0
    return ProcessRecord(name=name, pid=pid, started=own if started is None else started, log="")


def write_address(directory: Path, pid: int) -> None:
    work = directory / "work" / "master-1"
    work.mkdir(parents=True)
    address = {"pid": pid, "rest_url": "http://127.0.0.1:8085", "rpc_address": "grpc://x"}
    (work / "master.json").write_text(json.dumps(address))


def test_a_running_process_is_recognized(child) -> None:
    assert record(child.pid).alive


def test_a_reused_pid_is_not_mistaken_for_the_process(child) -> None:
    stranger = record(child.pid, started=1)
    assert not stranger.alive
    send(stranger, signal.SIGKILL)
    assert child.poll() is None


def test_a_zombie_process_counts_as_gone(child) -> None:
    known = record(child.pid)
    child.kill()
    assert wait_until_gone([known], 5) == []


def test_descendants_are_found_by_their_environment(child, tmp_path: Path) -> None:
    assert [found.pid for found in processes_of(tmp_path)] == [child.pid]
    assert processes_of(tmp_path / "other") == []


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    state = ClusterState(masters=(record(os.getpid()),))
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state


def test_a_directory_without_a_cluster_has_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None


def test_the_error_for_a_damaged_state_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(StartupFailed, match=r"cluster\.json cannot be read"):
        read_state(tmp_path)


def test_a_master_answers_where_its_address_file_says(child, tmp_path: Path) -> None:
    master = record(child.pid)
    write_address(tmp_path, child.pid)
    assert url_of(tmp_path, master) == "http://127.0.0.1:8085"
    assert urls_of(tmp_path, ClusterState(masters=(master,))) == ["http://127.0.0.1:8085"]


def test_the_address_of_a_previous_instance_is_ignored_but_its_port_is_reused(
    child, tmp_path: Path
) -> None:
    write_address(tmp_path, 1)
    assert url_of(tmp_path, record(child.pid)) is None
    assert previous_port_of(tmp_path, "master-1") == "8085"
    assert previous_port_of(tmp_path, "master-2") is None


def test_the_error_message_of_a_process_is_the_reason_for_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Error: of a former life\nINFO start\nError: no free port\n  tried 8081\n")
    said = ProcessRecord(name="m", pid=1, started=1, log=str(log), log_start=24)
    assert reason_in(said) == "no free port\n  tried 8081"


def test_without_an_error_message_the_end_of_the_log_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {number}" for number in range(40)))
    text = reason_in(ProcessRecord(name="m", pid=1, started=1, log=str(log)))
    assert text.splitlines()[0] == f"the end of {log} is"
    assert text.splitlines()[-1] == "  line 39"


def test_a_process_that_ends_during_its_start_is_reported_with_the_reason(tmp_path: Path) -> None:
    with (
        LocalCluster(tmp_path / "cluster", tied=True) as cluster,
        pytest.raises(StartupFailed, match=r"master-1 ended during its start: .*no\.such\.option"),
    ):
        cluster.start(task_executors=0, configuration='{"no.such.option": "1"}')
        cluster.wait_until_ready(seconds=30)
    assert cluster.state is None
    assert processes_of(cluster.directory) == []


def test_a_configuration_with_secrets_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, tied=True) as cluster:
        cluster.start(masters=0, task_executors=0, configuration='{"a": "secret"}')
        assert (tmp_path / "stoker.yml").stat().st_mode & 0o077 == 0


def test_the_logs_of_the_processes_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with LocalCluster(tmp_path, tied=True) as cluster:
            cluster.start(masters=1, task_executors=0, configuration="{rest.bind-port: 0}")
    finally:
        os.umask(before)
    logs = list((tmp_path / "log").rglob("*"))
    assert tmp_path / "log" / "master-1.log" in logs
    assert [path for path in logs if path.stat().st_mode & 0o077] == []


def started(masters: int, executors: int) -> ClusterState:
    return ClusterState(
        masters=tuple(record(1, name=f"master-{n}") for n in range(masters)),
        task_executors=tuple(record(1, name=f"task-executor-{n}") for n in range(executors)),
    )


def overview(task_executors: int) -> ClusterOverviewAnswer:
    return ClusterOverviewAnswer(
        taskmanagers=task_executors,
        slots_total=0,
        slots_available=0,
        jobs_running=0,
        jobs_finished=0,
        jobs_cancelled=0,
        jobs_failed=0,
        flink_commit="",
    )


def test_the_progress_of_a_start_reads_like_progress() -> None:
    one, two, url = started(1, 1), started(2, 2), "http://127.0.0.1:1"
    assert stage_text(one, [], None) == "starting the master"
    assert stage_text(two, [url], None) == "starting the masters: 1 of 2 answer"
    electing = Unavailable("no master leads at the moment; try again")
    assert stage_text(one, [url], electing) == f"the leading master at {url} is getting ready"
    assert stage_text(one, [url], overview(0)) == "starting the task executor and its Spark"
    assert stage_text(two, [url, url], overview(1)) == (
        "starting the task executors and their Sparks: 1 of 2 are ready"
    )
    assert stage_text(two, [url, url], overview(2)) is None


def test_a_fault_during_the_start_is_told() -> None:
    wrong = InvalidOption("the master uses TLS")
    assert "uses TLS" in (stage_text(started(1, 1), ["http://a:1"], wrong) or "")
