"""`stoker savepoint list` without a cluster."""

import json
from pathlib import Path

import pytest

from stoker.processes.local.cluster_state import LastStart, write_last_start
from stoker.savepoints.manifest import MANIFEST, SavepointManifest, encode_manifest
from stoker.savepoints.options import SAVEPOINT_DIRECTORY
from stoker.testing.sample_jobs import RUNNING
from unit.cli.conftest import Stoker


def save(directory: Path, name: str) -> Path:
    place = directory / name
    place.mkdir(parents=True)
    manifest = SavepointManifest(
        savepoint_id="one",
        job_id=RUNNING,
        job_name="clicks",
        created_at=1,
        kind="savepoint",
        queries=(),
        files=(),
    )
    (place / MANIFEST).write_bytes(encode_manifest(manifest))
    return place


def test_savepoints_are_listed_without_a_running_cluster(stoker: Stoker, tmp_path: Path) -> None:
    """Those of the local cluster and those of clusters for one command."""
    home = tmp_path / "home"
    first = save(home / "local" / "savepoints", "savepoint-1")
    second = save(home / "savepoints", "savepoint-2")
    result = stoker("savepoint", "list")
    assert result.exit_code == 0
    assert str(first) in result.stdout
    assert str(second) in result.stdout
    assert "No cluster runs" in result.stderr
    listed = json.loads(stoker("savepoint", "list", "--json").stdout)
    assert {each["path"] for each in listed} == {str(first), str(second)}


def test_the_directory_of_the_last_start_is_searched(stoker: Stoker, tmp_path: Path) -> None:
    own = tmp_path / "elsewhere"
    place = save(own, "savepoint-1")
    (tmp_path / "home" / "local").mkdir(parents=True)
    last = LastStart(masters=1, task_executors=1, settings={SAVEPOINT_DIRECTORY: str(own)})
    write_last_start(tmp_path / "home" / "local", last)
    assert str(place) in stoker("savepoint", "list").stdout


def test_a_named_directory_is_read_without_a_cluster(stoker: Stoker, tmp_path: Path) -> None:
    place = save(tmp_path / "saved", "savepoint-1")
    assert str(place) in stoker("savepoint", "list", tmp_path / "saved").stdout
    assert "There is no savepoint" in stoker("savepoint", "list", tmp_path / "none").stdout


def test_a_named_master_that_does_not_answer_is_an_error(
    stoker: Stoker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_MASTER", "http://127.0.0.1:9")
    result = stoker("savepoint", "list")
    assert result.exit_code == 1
    assert "$STOKER_MASTER" in result.stderr
