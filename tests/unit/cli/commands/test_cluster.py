"""`stoker cluster`, without starting a process."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stoker.core.errors import Conflict, StartupFailed
from stoker.osproc.process_tree import start_time
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import ClusterState, ProcessRecord, write_state
from stoker.savepoints.options import RETAINED_DIRECTORY, SAVEPOINT_DIRECTORY
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
