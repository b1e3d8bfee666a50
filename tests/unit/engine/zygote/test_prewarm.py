"""What prewarming leaves in a process that is about to fork."""

import os
import subprocess
import sys
from itertools import count

import pytest

from stoker.engine.protocol import ZYGOTE_ENVIRONMENT
from stoker.engine.zygote import main as zygote
from stoker.engine.zygote import prewarm
from stoker.engine.zygote.prewarm import becomes_single_threaded

FORK_AFTER_PREWARM = """
import os
from stoker.engine.zygote.prewarm import prewarm_grpc
assert prewarm_grpc()
import grpc
pid = os.fork()
if pid == 0:
    channel = grpc.insecure_channel("127.0.0.1:1")
    try:
        channel.unary_unary("/nobody/Answers")(b"", timeout=20)
    except grpc.RpcError as error:
        os._exit(7 if error.code() is grpc.StatusCode.UNAVAILABLE else 8)
    os._exit(9)
os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_forked_child_can_use_grpc_after_prewarming():
    done = subprocess.run(
        [sys.executable, "-c", FORK_AFTER_PREWARM],
        env={**os.environ, **ZYGOTE_ENVIRONMENT},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 7, done.stderr.decode()


def test_prewarming_waits_for_threads_that_end_late(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prewarm, "_POLL_SECONDS", 0.0)
    left = count(5, -1)
    assert becomes_single_threaded(lambda: next(left))


def test_prewarming_notices_threads_that_do_not_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prewarm, "_POLL_SECONDS", 0.0)
    assert not becomes_single_threaded(lambda: 2)


PREWARM = """
import os
from collections import Counter
from pyspark.sql.connect.session import SparkSession
from stoker.engine.zygote.prewarm import prewarm_spark

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


def test_prewarming_leaves_no_session_thread_or_descriptor():
    done = subprocess.run(
        [sys.executable, "-c", PREWARM], capture_output=True, timeout=60, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("may_fork", [True, False])
def test_prewarming_that_fails_does_not_prevent_forks(
    may_fork: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail() -> list[str]:
        raise AttributeError("another PySpark")

    monkeypatch.setattr(zygote, "prewarm_spark", fail)
    monkeypatch.setattr(zygote, "prewarm_grpc", lambda: may_fork)
    assert zygote._prewarm() is may_fork
    assert "another PySpark" in capsys.readouterr().err
