"""Processes of a local cluster that are killed, restarted and stopped."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import wait_until
from stoker.osproc.process_tree import start_time


@pytest.fixture
def killed_processes_return(stoker) -> Iterator[None]:
    """Complete the cluster, which other tests share, also when a test fails before it does so."""
    yield
    stoker("cluster", "up")


def _status(stoker) -> dict[str, bool]:
    answer = json.loads(stoker("cluster", "status", "--json", expect=None).stdout)
    return {process["name"]: process["alive"] for process in answer["processes"]}


def test_a_running_cluster_is_not_started_twice(stoker) -> None:
    before = stoker.state
    done = stoker("cluster", "up")
    assert "already running" in done.stderr
    assert stoker.state == before
    assert _status(stoker) == {"master-1": True, "task-executor-1": True}


def test_a_cluster_that_cannot_start_says_why_and_leaves_no_process(stoker, tmp_path: Path) -> None:
    other = type(stoker)(tmp_path)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = other("cluster", "up", "-D", f"jobmanager.rpc.port={port}", expect=1)
    assert "master-1 ended during its start: " in done.stderr
    assert f"port {port}: in use" in done.stderr
    assert other.processes() == []
    assert "No local cluster runs" in other("cluster", "status", expect=1).stdout


@pytest.mark.usefixtures("killed_processes_return")
def test_the_death_of_the_only_master_loses_no_job(stoker, slow_job: Path) -> None:
    """Two jobs run and one waits for a slot when the master dies."""
    jobs = [stoker.submit(slow_job, "--param", "seconds=10") for _ in range(3)]
    executor = stoker.state.task_executors[0]
    stoker.kill("master-1")
    refused = stoker("list", expect=1)
    assert "master-1" in refused.stderr
    assert "stoker cluster up" in refused.stderr
    assert _status(stoker) == {"master-1": False, "task-executor-1": True}
    stoker("cluster", "up")
    for job in jobs:
        assert "FINISHED" in stoker("wait", job).stdout
    assert stoker.state.task_executors[0] == executor
    attempts = [json.loads(stoker("status", job, "--json").stdout) for job in jobs]
    assert all(details["regions"][0]["current"]["number"] == 0 for details in attempts)


@pytest.mark.usefixtures("killed_processes_return")
def test_the_death_of_a_task_executor_fails_the_job_with_the_true_reason(
    stoker, slow_job: Path
) -> None:
    job = stoker.submit(slow_job)
    wait_until(lambda: "task-executor-1" in stoker("status", job).stdout, "the job runs", 40)
    stoker.kill("task-executor-1")
    done = stoker("wait", job, expect=1)
    assert "FAILED" in done.stdout
    assert "TaskExecutorLost: task executor task-executor-1 is lost" in done.stdout
    master = stoker.state.masters[0].pid
    wait_until(
        lambda: [process.pid for process in stoker.processes()] == [master],
        "only the master is left",
        40,
    )
    stoker("cluster", "up")
    assert _status(stoker) == {"master-1": True, "task-executor-1": True}


def test_a_cluster_that_a_command_started_ends_even_when_the_command_is_killed(
    stoker, slow_job: Path, tmp_path: Path
) -> None:
    alone = type(stoker)(tmp_path)
    with alone.started("run", slow_job) as run:
        assert run.stderr is not None
        assert "starting one on this machine" in run.stderr.readline()
        assert any("is accepted" in line for line in run.stderr)
        children = _descendants(run.pid)
        assert len(children) >= 2
    wait_until(
        lambda: all(start_time(pid) != started for pid, started in children.items()),
        "no child process is left",
        40,
    )


def _descendants(pid: int) -> dict[int, int]:
    """Pid and start time of every process below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = (int(fields[1]), int(fields[19]))
    found: dict[int, int] = {}
    wanted = {pid}
    while wanted:
        children = {child for child, (parent, _) in parents.items() if parent in wanted}
        found |= {child: parents[child][1] for child in children}
        wanted = children
    return found
