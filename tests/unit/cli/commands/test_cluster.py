"""`stoker cluster`, without starting a process."""

import asyncio
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stoker.cli.main import cli
from stoker.core.errors import Conflict, StartupFailed
from stoker.osproc.process_tree import start_time
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import (
    ClusterState,
    ProcessRecord,
    socket_of,
    write_state,
)
from stoker.rest.options import RestOptions
from stoker.savepoints.options import RETAINED_DIRECTORY, SAVEPOINT_DIRECTORY
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import EXECUTOR
from unit.cli.conftest import Stoker


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories of the clusters that were stopped."""
    stopped: list[Path] = []
    monkeypatch.setattr(LocalCluster, "stop", lambda self, *_: stopped.append(self.directory))
    return stopped


def refuse_start(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def start(_cluster: LocalCluster, **_plan: Any) -> ClusterState:
        raise error

    monkeypatch.setattr(LocalCluster, "start", start)


def test_up_does_not_stop_a_cluster_that_another_command_has_just_started(
    stoker: Stoker, stops: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_start(monkeypatch, Conflict("a local cluster is already running"))
    result = stoker("cluster", "up")
    assert result.exit_code == 1
    assert "already running" in result.stderr
    assert stops == []


def test_up_stops_what_it_has_started_when_the_start_fails(
    stoker: Stoker, stops: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuse_start(monkeypatch, StartupFailed("no free port"))
    assert stoker("cluster", "up", "--dir", tmp_path / "mine").exit_code == 1
    assert stops == [tmp_path / "mine"]


def test_up_waits_for_a_cluster_that_another_command_is_starting(
    stoker: Stoker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = start_time(os.getpid())
    assert started is not None
    master = ProcessRecord(name="master-1", pid=os.getpid(), started=started, log="")
    write_state(tmp_path, ClusterState(masters=(master,)))
    waited: list[Path] = []
    monkeypatch.setattr(
        LocalCluster, "wait_until_ready", lambda self, *_: waited.append(self.directory)
    )
    assert stoker("cluster", "up", "--dir", tmp_path).exit_code == 0
    assert waited == [tmp_path]


def test_purge_removes_only_the_directory_of_a_local_cluster(
    stoker: Stoker, tmp_path: Path
) -> None:
    precious = tmp_path / "home" / "thesis.tex"
    precious.parent.mkdir()
    precious.write_text("years of work")
    result = stoker("cluster", "down", "--purge", "--dir", precious.parent)
    assert result.exit_code == 1
    assert "is not the directory of a local cluster" in result.stderr
    assert precious.read_text() == "years of work"
    assert stoker("cluster", "down", "--purge", "--dir", tmp_path / "never-made").exit_code == 0


def test_purge_removes_a_stopped_cluster(stoker: Stoker, tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    LocalCluster(directory).stop()
    (directory / "storage").mkdir()
    assert stoker("cluster", "down", "--purge", "--dir", directory).exit_code == 0
    assert not directory.exists()


@pytest.fixture
def purged(tmp_path: Path) -> Path:
    """The directory of a stopped cluster with a savepoint and a job."""
    directory = tmp_path / "cluster"
    LocalCluster(directory).stop()
    for folder in ("savepoints/savepoint-1", "storage/jobs"):
        (directory / folder).mkdir(parents=True)
        (directory / folder / "file").write_text("content")
    return directory


def test_purge_keeps_the_savepoints_that_a_user_has_taken(stoker: Stoker, purged: Path) -> None:
    """Nobody who throws a cluster away means the copies that were made to outlive it."""
    result = stoker("cluster", "down", "--purge", "--dir", purged)
    assert result.exit_code == 0
    assert str(purged / "savepoints") in result.stderr
    assert "--with-savepoints" in result.stderr
    assert (purged / "savepoints" / "savepoint-1" / "file").read_text() == "content"
    assert not (purged / "storage").exists()
    # What is left is still the directory of a cluster, which can be purged again.
    assert stoker("cluster", "down", "--purge", "--dir", purged).exit_code == 0
    assert (purged / "savepoints" / "savepoint-1").is_dir()


def test_purge_with_savepoints_removes_them_too(stoker: Stoker, purged: Path) -> None:
    result = stoker("cluster", "down", "--purge", "--with-savepoints", "--dir", purged)
    assert result.exit_code == 0
    assert not purged.exists()


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """The directory of a stopped cluster with a stream that continues and a kept checkpoint."""
    directory = tmp_path / "cluster"
    LocalCluster(directory).stop()
    job = directory / "storage" / "jobs" / ("d" * 32)
    (job / "graph").mkdir(parents=True)
    (job / "graph" / "1.json").write_text('{"name":"clicks"}')
    (job / "checkpoints" / "out").mkdir(parents=True)
    kept = directory / "storage" / "retained" / "checkpoint-1"
    kept.mkdir(parents=True)
    (kept / "manifest.json").write_text("{}")
    return directory


def test_purge_without_a_terminal_refuses_to_lose_jobs_and_checkpoints(
    stoker: Stoker, busy: Path, stops: list[Path]
) -> None:
    result = stoker("cluster", "down", "--purge", "--dir", busy)
    assert result.exit_code == 1
    assert "job clicks (dddddddddddd), which has not ended, and its checkpoint" in result.stderr
    assert f"kept checkpoint {busy / 'storage' / 'retained' / 'checkpoint-1'}" in result.stderr
    assert f"stoker cluster down --purge --yes --dir {busy}" in result.stderr
    assert stops == []
    assert (busy / "storage").is_dir()


def test_purge_loses_them_when_told_so(stoker: Stoker, busy: Path) -> None:
    assert stoker("cluster", "down", "--purge", "--yes", "--dir", busy).exit_code == 0
    assert not busy.exists()


@pytest.mark.parametrize(("answer", "removed"), [("y\n", True), ("\n", False)])
def test_purge_asks_at_a_terminal(
    stoker: Stoker, busy: Path, monkeypatch: pytest.MonkeyPatch, answer: str, removed: bool
) -> None:
    monkeypatch.setattr("stoker.cli.cluster_purge.is_interactive", lambda: True)
    result = CliRunner().invoke(
        cli, ["cluster", "down", "--purge", "--dir", str(busy)], input=answer
    )
    assert "job clicks (dddddddddddd)" in result.stderr
    assert (result.exit_code == 0) is removed
    assert busy.exists() is not removed


def test_down_without_purge_loses_nothing_and_asks_nothing(stoker: Stoker, busy: Path) -> None:
    assert stoker("cluster", "down", "--dir", busy).exit_code == 0
    assert (busy / "storage" / "retained").is_dir()


def test_savepoints_are_not_removed_without_purge(stoker: Stoker, purged: Path) -> None:
    result = stoker("cluster", "down", "--with-savepoints", "--dir", purged)
    assert result.exit_code == 1
    assert "--purge" in result.stderr
    assert (purged / "storage").exists()


def configuration_at_start(stoker: Stoker, monkeypatch: pytest.MonkeyPatch, *words: Any) -> Any:
    plans: list[dict[str, Any]] = []

    def start(_cluster: LocalCluster, **plan: Any) -> ClusterState:
        plans.append(plan)
        raise Conflict("seen enough")

    monkeypatch.setattr(LocalCluster, "start", start)
    stoker("cluster", "up", *words)
    return json.loads(plans[0]["configuration"])


def test_a_local_cluster_has_a_directory_for_savepoints(
    stoker: Stoker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = configuration_at_start(stoker, monkeypatch, "--dir", tmp_path / "mine")
    assert found[SAVEPOINT_DIRECTORY] == str(tmp_path / "mine" / "savepoints")


def test_the_local_cluster_continues_what_ran_without_one(
    stoker: Stoker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cluster for one command keeps the last checkpoints of its jobs in the same place."""
    found = configuration_at_start(stoker, monkeypatch)
    assert found[RETAINED_DIRECTORY] == str(tmp_path / "home" / "checkpoints")
    elsewhere = configuration_at_start(stoker, monkeypatch, "--dir", tmp_path / "mine")
    assert RETAINED_DIRECTORY not in elsewhere


def test_the_directory_for_savepoints_that_a_user_names_wins(
    stoker: Stoker, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("stoker.yml").write_text(f"{SAVEPOINT_DIRECTORY}: /mine\n")
    assert configuration_at_start(stoker, monkeypatch)[SAVEPOINT_DIRECTORY] == "/mine"


def running_state(processes: int = 1) -> ClusterState:
    started = start_time(os.getpid())
    assert started is not None
    return ClusterState(
        masters=tuple(
            ProcessRecord(name=f"master-{number}", pid=os.getpid(), started=started, log="")
            for number in range(1, processes + 1)
        ),
        task_executors=(
            ProcessRecord(name="task-executor-1", pid=os.getpid(), started=started, log=""),
        ),
    )


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local cluster with two slots; its processes are this one."""
    directory = tmp_path / "home" / "local"
    (directory / "work" / "master-1").mkdir(parents=True)
    write_state(directory, running_state())
    (directory / "stoker.yml").write_text(json.dumps({"taskmanager.numberOfTaskSlots": "2"}))
    address = {"pid": os.getpid(), "rest_url": "http://127.0.0.1:18081"}
    (directory / "work" / "master-1" / "master.json").write_text(json.dumps(address))
    monkeypatch.setattr(LocalCluster, "wait_until_ready", lambda *_: None)
    return directory


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ("--slots 7", "--slots 7"),
        ("--masters 2", "--masters 2"),
        ("--masters 1 --task-executors 0", "--task-executors 0"),
        ("--rest-port 9000", "--rest-port 9000"),
        ("-D heartbeat.interval=7s", "-D heartbeat.interval=7s"),
    ],
)
def test_up_says_which_options_cannot_act_on_a_running_cluster(
    stoker: Stoker, running: Path, options: str, remedy: str
) -> None:
    result = stoker("cluster", "up", *options.split())
    assert result.exit_code == 1
    assert f"stoker cluster restart {remedy}\n" in result.stderr


@pytest.mark.parametrize("options", ["", "--slots 2", "--masters 1 -D rest.bind-port=8081-8090"])
def test_up_accepts_the_options_that_a_running_cluster_has(
    stoker: Stoker, running: Path, options: str
) -> None:
    assert stoker("cluster", "up", *options.split()).exit_code == 0


@dataclass
class Starts:
    """How the cluster was started, instead of starting it."""

    plans: list[dict[str, Any]] = field(default_factory=list)

    def start(self, **plan: Any) -> ClusterState:
        self.plans.append(plan)
        return ClusterState()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, stops: list[Path]) -> Starts:
    starts = Starts()
    monkeypatch.setattr(LocalCluster, "start", starts.start)
    monkeypatch.setattr(LocalCluster, "wait_until_ready", lambda *_: None)
    return starts


def settings_of(plan: dict[str, Any]) -> dict[str, str]:
    """The settings but for the directories that every local cluster has."""
    settings: dict[str, str] = json.loads(plan["configuration"])
    own = (SAVEPOINT_DIRECTORY, RETAINED_DIRECTORY)
    return {key: text for key, text in settings.items() if key not in own}


def test_restart_keeps_processes_ports_and_settings_but_for_what_is_given(
    stoker: Stoker, running: Path, stops: list[Path], starts: Starts
) -> None:
    write_state(running, running_state(processes=2))
    given = ("--task-executors", "3", "-D", "heartbeat.interval=7 s")
    assert stoker("cluster", "restart", *given).exit_code == 0
    assert stops == [running]
    (plan,) = starts.plans
    assert (plan["masters"], plan["task_executors"], plan["zookeeper"]) == (2, 3, 0)
    assert plan["ports"] == {"master-1": "18081,8081-8090"}
    assert settings_of(plan) == {
        "heartbeat.interval": "7 s",
        "taskmanager.numberOfTaskSlots": "2",
    }


def test_restart_replaces_a_setting_that_is_given_anew(
    stoker: Stoker, running: Path, starts: Starts
) -> None:
    assert stoker("cluster", "restart", "--slots", "5", "--rest-port", "0").exit_code == 0
    (plan,) = starts.plans
    assert plan["ports"] == {}
    assert settings_of(plan) == {
        "rest.bind-port": "0",
        "taskmanager.numberOfTaskSlots": "5",
    }


def test_restart_starts_a_cluster_that_does_not_run(
    stoker: Stoker, stops: list[Path], starts: Starts
) -> None:
    assert stoker("cluster", "restart").exit_code == 0
    assert stops == []
    assert [plan["masters"] for plan in starts.plans] == [1]


@pytest.fixture
def stopped(stoker: Stoker, running: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster that ran with two masters, two slots, an option and no token, and was stopped."""
    write_state(running, running_state(processes=2))
    settings = {
        "taskmanager.numberOfTaskSlots": "2",
        "heartbeat.interval": "7 s",
        "client.token": "secret-token",
        SAVEPOINT_DIRECTORY: str(running / "savepoints"),
    }
    (running / "stoker.yml").write_text(json.dumps(settings))
    assert stoker("cluster", "up").exit_code == 0
    (running / "cluster.json").unlink()
    # What a failed start leaves there must not come back.
    (running / "stoker.yml").write_text('{"rest.bind-port": "1"}')
    return running


@pytest.mark.parametrize("command", ["up", "restart"])
def test_a_stopped_cluster_starts_as_it_was_started_last(
    stoker: Stoker, stopped: Path, starts: Starts, command: str
) -> None:
    result = stoker("cluster", command, "--slots", "5")
    assert result.exit_code == 0
    (plan,) = starts.plans
    assert (plan["masters"], plan["task_executors"], plan["zookeeper"]) == (2, 1, 0)
    assert settings_of(plan) == {
        "client.token": "secret-token",
        "heartbeat.interval": "7 s",
        "taskmanager.numberOfTaskSlots": "5",
    }


def test_up_says_which_options_of_the_last_start_it_uses_but_no_secret(
    stoker: Stoker, stopped: Path, starts: Starts
) -> None:
    result = stoker("cluster", "up")
    (line,) = [line for line in result.stderr.splitlines() if "last started" in line]
    assert "--masters 2" in line
    assert "--slots 2" in line
    assert "heartbeat.interval=7 s" in line
    assert "secret-token" not in result.stderr
    assert (stopped / "last-start.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("command", ["up", "restart"])
def test_an_option_that_a_file_has_set_since_the_last_start_is_told(
    stoker: Stoker, stopped: Path, starts: Starts, command: str, tmp_path: Path
) -> None:
    """The project directory in which the cluster is started again may hold a `stoker.yml`."""
    file = tmp_path / "project" / "stoker.yml"
    file.parent.mkdir()
    file.write_text("heartbeat.timeout: 50 s\ntaskmanager.numberOfTaskSlots: 4\n")
    result = stoker("cluster", command, "--config", file, "-D", "heartbeat.timeout=40 s")
    assert result.exit_code == 0
    assert settings_of(starts.plans[0])["taskmanager.numberOfTaskSlots"] == "4"
    (line,) = [line for line in result.stderr.splitlines() if "Other than" in line]
    assert line == f"Other than at its last start: --slots 4 (from {file}:2)"
    (kept,) = [line for line in result.stderr.splitlines() if "last started" in line]
    assert "--slots" not in kept


def test_restart_leaves_a_stopped_cluster_without_token_open_and_up_does_not(
    stoker: Stoker, stopped: Path, starts: Starts
) -> None:
    for command in ("restart", "up"):
        assert stoker("cluster", command).exit_code == 0
    assert [plan["with_token"] for plan in starts.plans] == [False, True]


def test_a_moved_cluster_has_its_savepoints_in_its_new_directory(
    stoker: Stoker, stopped: Path, starts: Starts, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    stopped.rename(moved)
    assert stoker("cluster", "up", "--dir", moved).exit_code == 0
    (plan,) = starts.plans
    assert json.loads(plan["configuration"])[SAVEPOINT_DIRECTORY] == str(moved / "savepoints")


def test_purge_forgets_the_options(stoker: Stoker, stopped: Path, starts: Starts) -> None:
    (stopped / "cluster.lock").touch()
    assert stoker("cluster", "down", "--purge").exit_code == 0
    assert stoker("cluster", "up").exit_code == 0
    (plan,) = starts.plans
    assert plan["masters"] == 1
    assert settings_of(plan) == {}


async def test_the_status_as_json_names_leader_slots_task_executors_and_jobs(
    stoker: Stoker, running: Path
) -> None:
    """For scripts: what the table shows, and the epoch."""
    place = socket_of(running, "master-1")
    place.parent.mkdir()
    master = Master(options=RestOptions(bind_port="0", socket=place))
    async with master.serving() as url:
        master.leader = url
        address = {"pid": os.getpid(), "rest_url": url}
        (running / "work" / "master-1" / "master.json").write_text(json.dumps(address))
        result = await asyncio.to_thread(stoker, "cluster", "status", "--json")
        shown = await asyncio.to_thread(stoker, "cluster", "status")
    answer = json.loads(result.stdout)
    assert answer["leader"] == {"name": "master-1", "url": url, "epoch": 7}
    assert answer["slots"] == {"total": 4, "free": 2}
    assert answer["task_executors"] == [{"id": EXECUTOR, "slots_total": 4, "slots_free": 2}]
    assert answer["jobs"]["RUNNING"] >= 1
    assert "running, leads" in shown.stdout
    assert f"{answer['jobs']['RUNNING']} RUNNING" in shown.stdout


def test_the_status_as_json_has_the_same_fields_while_no_master_answers(
    stoker: Stoker, tmp_path: Path
) -> None:
    result = stoker("cluster", "status", "--json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["processes"] == []
    assert [answer[key] for key in ("leader", "slots", "task_executors", "jobs")] == [None] * 4


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("stop", "stoker cluster down"), ("ps", "stoker cluster status"), ("statsu", "'status'")],
)
def test_a_command_of_another_tool_gets_a_suggestion(
    stoker: Stoker, typed: str, meant: str
) -> None:
    result = stoker("cluster", typed)
    assert result.exit_code == 2
    assert f"there is no command '{typed}'; did you mean" in result.stderr
    assert meant in result.stderr
