"""Savepoints of a real streaming job, from the trigger to the job that continues from one."""

import json
import os
from pathlib import Path

import pytest

from builders import wait_until
from integration.cli.conftest import CommandLine
from integration.cli.word_stream import PIPELINE, Stream

pytestmark = pytest.mark.skipif(
    os.environ.get("TEST_SAVEPOINTS") != "long",
    reason="minutes on a busy machine: TEST_SAVEPOINTS=long",
)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path / "stream")


@pytest.fixture
def job_file(stream: Stream, tmp_path: Path) -> Path:
    path = tmp_path / "words.py"
    path.write_text(PIPELINE.format(root=stream.root))
    return path


def test_a_job_continues_from_its_savepoint_without_loss_or_repetition(
    stoker: CommandLine,
    stream: Stream,
    job_file: Path,
    tmp_path: Path,
    no_leftovers: None,
):
    """The stop prints the path of its savepoint, which may be moved (CKPT-12, CKPT-15)."""
    stream.write(7)
    first = stoker.submit(job_file)
    wait_until(lambda: stream.is_caught_up, "all input is in the output", 120)
    stream.write(5)
    taken = stoker("savepoint", "trigger", first, tmp_path / "saved").stdout.strip()
    shown = stoker("savepoint", "show", taken, "--verify").stdout
    assert "query lines: batch" in shown
    assert "state of stateStoreSave" in shown
    assert "Every file is as it was saved" in shown
    wait_until(lambda: stream.is_caught_up, "all input is in the output", 60)
    checkpoints = json.loads(stoker("checkpoint", "list", first, "--json").stdout)
    assert checkpoints["latest_savepoint"]["path"] == taken
    assert any(entry["figures"] for entry in checkpoints["history"])
    assert stoker("checkpoint", "verify", taken).returncode == 0

    stream.write(6)
    stopped = stoker("stop", first, "-p", tmp_path / "saved").stdout.strip()
    assert json.loads(stoker("status", first, "--json").stdout)["status"] == "FINISHED"
    listed = json.loads(stoker("savepoint", "list", tmp_path / "saved", "--json").stdout)
    assert [each["path"] for each in listed] == [stopped, taken]

    stream.write(4)
    stoker("savepoint", "dispose", taken)
    assert not Path(taken).exists()
    moved = tmp_path / "moved"
    Path(stopped).rename(moved)
    second = stoker.submit(job_file, "-s", str(moved))
    wait_until(lambda: stream.is_caught_up, "all input is in the output", 120)
    refused = stoker("run", "-d", job_file, "-s", taken, expect=None)
    assert refused.returncode != 0
    assert "there is no such directory" in refused.stderr
    stoker("cancel", second)
