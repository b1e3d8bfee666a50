"""What a process that forks has left of gRPC after it was begun and ended."""

import subprocess
import sys
from itertools import count

import pytest

from stoker.engine.zygote import grpc_prewarm as grpc_rehearsal
from stoker.engine.zygote.grpc_prewarm import comes_to_be_alone

FORK_AFTER_REHEARSAL = """
import os
from stoker.engine.zygote.grpc_prewarm import rehearse_grpc
assert rehearse_grpc()
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


def test_a_child_uses_grpc_after_the_rehearsal():
    done = subprocess.run(
        [sys.executable, "-c", FORK_AFTER_REHEARSAL], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 7, done.stderr.decode()


def test_threads_may_take_a_while_to_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grpc_rehearsal, "_LOOK_SECONDS", 0.0)
    left = count(5, -1)
    assert comes_to_be_alone(lambda: next(left))


def test_threads_that_stay_are_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grpc_rehearsal, "_LOOK_SECONDS", 0.0)
    assert not comes_to_be_alone(lambda: 2)
