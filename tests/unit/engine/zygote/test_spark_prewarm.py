"""What a process that forks has of PySpark's client after it has spoken with nobody."""

import subprocess
import sys

import pytest

from stoker.engine.zygote import main as zygote

REHEARSAL = """
import os
from collections import Counter
from pyspark.sql.connect.session import SparkSession
from stoker.engine.zygote.spark_prewarm import prewarm_spark

def state():
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), dict(os.environ)

before = state()
calls = Counter(prewarm_spark())
assert set(calls) == {"CloneSession", "ExecutePlan", "ReleaseSession"}, calls
assert len(set(calls.values())) == 1, calls
assert SparkSession.getActiveSession() is None
assert SparkSession._get_default_session() is None
assert state() == before
"""


def test_nothing_but_memory_is_left_of_the_rehearsal():
    done = subprocess.run(
        [sys.executable, "-c", REHEARSAL], capture_output=True, timeout=60, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("may_fork", [True, False])
def test_a_pyspark_that_it_does_not_suit_keeps_nobody_from_forking(
    may_fork: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def unsuited() -> list[str]:
        raise AttributeError("another PySpark")

    monkeypatch.setattr(zygote, "prewarm_spark", unsuited)
    monkeypatch.setattr(zygote, "rehearse_grpc", lambda: may_fork)
    assert zygote._rehearse() is may_fork
    assert "another PySpark" in capsys.readouterr().err
