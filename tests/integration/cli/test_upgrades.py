"""Upgrades of real streaming jobs: no row is lost or written twice.

TEST_SAVEPOINTS=long adds rollbacks and a rescale.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from builders import wait_until
from integration.cli.conftest import CommandLine
from integration.cli.distinct_stream import DistinctStream

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("no_leftovers")]
long = pytest.mark.skipif(
    os.environ.get("TEST_SAVEPOINTS") != "long",
    reason="minutes on a busy machine: TEST_SAVEPOINTS=long",
)
PATIENCE = 240


@pytest.fixture
def stream(tmp_path: Path) -> DistinctStream:
    return DistinctStream(tmp_path / "stream")


def details(stoker: CommandLine, job: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(stoker("status", job, "--json").stdout)
    return answer


def start_caught_up_job(stoker: CommandLine, stream: DistinctStream) -> str:
    stream.write(5)
    job = stoker.submit(stream.version("version-1"))
    wait_until(lambda: stream.is_caught_up, "all input is in the output", PATIENCE)
    return job


def test_an_upgrade_continues_when_its_client_is_killed(
    stoker: CommandLine, stream: DistinctStream, tmp_path: Path
):
    old = start_caught_up_job(stoker, stream)
    stream.write(4)
    with stoker.started(
        *("upgrade", old, stream.version("version-2")),
        *("--savepoint-path", tmp_path / "saved", "--window", "1"),
    ) as client:
        assert client.stderr is not None
        assert "Stopping job" in client.stderr.readline()
    wait_until(
        lambda: details(stoker, old)["status"] == "FINISHED",
        "the old version has finished",
        PATIENCE,
    )
    stream.write(3)
    wait_until(lambda: stream.is_caught_up, "all input is in the output", PATIENCE)
    (new,) = stoker.live_jobs("version-")
    restored = details(stoker, new)["checkpoints"]["restored"]
    assert new != old
    assert restored["path"].startswith(str(tmp_path / "saved"))


@long
def test_an_upgrade_to_a_version_that_does_not_start_is_rolled_back(
    stoker: CommandLine, stream: DistinctStream, tmp_path: Path
):
    old = start_caught_up_job(stoker, stream)
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
    wait_until(lambda: stream.is_caught_up, "all input is in the output", PATIENCE)
    assert stoker.live_jobs("version-") == [state["job-id"]]


@long
def test_a_version_that_fails_later_is_rolled_back_without_losing_its_progress(
    stoker: CommandLine, stream: DistinctStream, tmp_path: Path
):
    old = start_caught_up_job(stoker, stream)
    number = "IF(n = 12, CAST(raise_error('not twelve') AS LONG), n)"
    with stoker.started(
        *("upgrade", old, stream.version("version-2", number=number)),
        *("--savepoint-path", tmp_path / "saved", "--window", "600", "--json"),
    ) as client:
        wait_until(
            lambda: details(stoker, old)["status"] == "FINISHED",
            "the old version has finished",
            PATIENCE,
        )
        stream.write(4)
        wait_until(lambda: stream.is_caught_up, "all input is in the output", PATIENCE)
        stream.write(5)
        output, errors = client.communicate(timeout=PATIENCE)
    assert client.returncode == 1, errors
    state = json.loads(output)
    assert "not twelve" in state["reason"]
    assert "retained" in state["origin"]
    stream.write(2)
    wait_until(lambda: stream.is_caught_up, "all input is in the output", PATIENCE)
    assert stoker.live_jobs("version-") == [state["job-id"]]


@long
def test_a_rescaled_job_keeps_its_state(
    stoker: CommandLine, stream: DistinctStream, tmp_path: Path
):
    """No row is lost or written twice with more or fewer partitions (FAULT-11)."""
    job = start_caught_up_job(stoker, stream)
    # More partitions than before, then fewer.
    for partitions in ("5", "3"):
        rescaled = stoker(
            *("rescale", job, partitions, "--savepoint-path", tmp_path / "saved", "--json")
        )
        state = json.loads(rescaled.stdout)
        assert state["phase"] == "DONE"
        job = state["job-id"]
        stream.write(9)
        wait_until(lambda: stream.is_caught_up, "all input is in the output", PATIENCE)
    stopped = stoker("stop", job, "-p", tmp_path / "saved").stdout.strip()
    shown = stoker("savepoint", "show", stopped, "--verify").stdout
    assert "3 partitions" in shown
    assert stoker("checkpoint", "verify", stopped).returncode == 0
