"""Real streaming jobs replaced by other versions: nothing is lost, nothing is written twice.

With STOKER_SAVEPOINTS=long also one that has to go back, and a rescale.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.cli.conftest import CommandLine, Eventually
from integration.cli.distinct_stream import DistinctStream

pytestmark = pytest.mark.timeout(900)
long = pytest.mark.skipif(
    os.environ.get("STOKER_SAVEPOINTS") != "long",
    reason="minutes on a busy machine: STOKER_SAVEPOINTS=long",
)
PATIENCE = 240
ENDED = ("FINISHED", "FAILED", "CANCELED")


@pytest.fixture
def stream(tmp_path: Path) -> DistinctStream:
    return DistinctStream(tmp_path / "stream")


@pytest.fixture(autouse=True)
def no_leftovers(stoker: CommandLine) -> Iterator[None]:
    yield
    for job in live_jobs(stoker):
        stoker("cancel", job, expect=None)


def live_jobs(stoker: CommandLine) -> list[str]:
    """Of this file."""
    jobs = json.loads(stoker("list", "--json").stdout)
    ours = [job for job in jobs if job["name"].startswith("version-")]
    return [job["jid"] for job in ours if job["state"] not in ENDED]


def details(stoker: CommandLine, job: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(stoker("status", job, "--json").stdout)
    return told


def begun(stoker: CommandLine, stream: DistinctStream, eventually: Eventually) -> str:
    stream.write(5)
    job = stoker.submit(stream.version("version-1"))
    eventually(lambda: stream.is_caught_up, PATIENCE)
    return job


def test_an_upgrade_continues_when_its_client_is_killed(
    stoker: CommandLine, stream: DistinctStream, tmp_path: Path, eventually: Eventually
):
    old = begun(stoker, stream, eventually)
    stream.write(4)
    client = stoker.start(
        *("upgrade", old, stream.version("version-2")),
        *("--savepoint-path", tmp_path / "saved", "--window", "1"),
    )
    try:
        assert client.stderr is not None
        assert "Stopping job" in client.stderr.readline()
    finally:
        client.kill()
        client.communicate()
    eventually(lambda: details(stoker, old)["status"] == "FINISHED", PATIENCE)
    stream.write(3)
    eventually(lambda: stream.is_caught_up, PATIENCE)
    (new,) = live_jobs(stoker)
    restored = details(stoker, new)["checkpoints"]["restored"]
    assert new != old
    assert restored["path"].startswith(str(tmp_path / "saved"))


@long
def test_a_version_that_does_not_start_is_followed_by_the_old_one(
    stoker: CommandLine, stream: DistinctStream, tmp_path: Path, eventually: Eventually
):
    old = begun(stoker, stream, eventually)
    bad = stream.version("version-2", check="assert False, 'this version is broken'")
    done = stoker(
        *("upgrade", old, bad, "--savepoint-path", tmp_path / "saved", "--json"), expect=None
    )
    assert done.returncode == 1, done.stderr
    state = json.loads(done.stdout)
    assert state["rolled-back"]
    assert "this version is broken" in state["reason"]
    assert state["origin"] is None
    stream.write(4)
    eventually(lambda: stream.is_caught_up, PATIENCE)
    assert live_jobs(stoker) == [state["job-id"]]


@long
def test_a_version_that_fails_with_some_data_is_followed_by_the_old_one_from_where_it_was(
    stoker: CommandLine, stream: DistinctStream, tmp_path: Path, eventually: Eventually
):
    old = begun(stoker, stream, eventually)
    number = "IF(n = 12, CAST(raise_error('not twelve') AS LONG), n)"
    client = stoker.start(
        *("upgrade", old, stream.version("version-2", number=number)),
        *("--savepoint-path", tmp_path / "saved", "--window", "600", "--json"),
    )
    try:
        eventually(lambda: details(stoker, old)["status"] == "FINISHED", PATIENCE)
        stream.write(4)
        eventually(lambda: stream.is_caught_up, PATIENCE)
        stream.write(5)
        output, errors = client.communicate(timeout=PATIENCE)
    finally:
        client.kill()
        client.communicate()
    assert client.returncode == 1, errors
    state = json.loads(output)
    assert "not twelve" in state["reason"]
    assert "retained" in state["origin"]
    stream.write(2)
    eventually(lambda: stream.is_caught_up, PATIENCE)
    assert live_jobs(stoker) == [state["job-id"]]


@long
def test_a_rescaled_job_keeps_its_state(
    stoker: CommandLine, stream: DistinctStream, tmp_path: Path, eventually: Eventually
):
    """Shows FAULT-11."""
    job = begun(stoker, stream, eventually)
    # More than there were, and fewer.
    for partitions in ("5", "3"):
        rescaled = stoker(
            *("rescale", job, partitions, "--savepoint-path", tmp_path / "saved", "--json")
        )
        state = json.loads(rescaled.stdout)
        assert state["phase"] == "DONE"
        job = state["job-id"]
        stream.write(9)
        eventually(lambda: stream.is_caught_up, PATIENCE)
    stopped = stoker("stop", job, "-p", tmp_path / "saved").stdout.strip()
    shown = stoker("savepoint", "show", stopped, "--verify").stdout
    assert "3 partitions" in shown
    assert stoker("checkpoint", "verify", stopped).returncode == 0
