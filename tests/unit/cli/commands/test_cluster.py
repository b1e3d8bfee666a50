"""`stoker cluster`, without starting a process."""

import os
from pathlib import Path
from typing import Any

import pytest

from stoker.core.errors import Conflict, StartupFailed
from stoker.osproc.process_tree import start_time
from stoker.processes.local.cluster import LocalCluster
from stoker.processes.local.cluster_state import ClusterState, ProcessRecord, write_state
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
