"""The zygote, from which runners are forked, without a task executor."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from stoker.engine.protocol import ZYGOTE_ENVIRONMENT, Exited, Fork, Forked, FromZygote

SERVE = "from stoker.engine.zygote import main as zygote\n{change}\nzygote.main()"
CHANGES = {
    "unchanged": "pass",
    "when gRPC threads do not end": "zygote.prewarm_grpc = lambda: False",
}


@contextmanager
def run_zygote(change: str) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(60)
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE.format(change=change), str(theirs.fileno())],
            env=ZYGOTE_ENVIRONMENT,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        try:
            yield process, ours
        finally:
            process.kill()
            process.wait()


def fork_runner(control: socket.socket) -> socket.socket:
    """Our end of the channel to a new runner."""
    ours, theirs = socket.socketpair()
    with theirs:
        output = [sys.stdout.fileno(), sys.stderr.fileno()]
        request = msgspec.msgpack.encode(Fork(runner=1))
        socket.send_fds(control, [request], [theirs.fileno(), *output])
    assert isinstance(report_of(control), Forked)
    return ours


def report_of(control: socket.socket) -> FromZygote:
    return msgspec.msgpack.decode(control.recv(4096), type=FromZygote)


def test_the_zygote_prewarms_before_it_forks(tmp_path: Path):
    mark = tmp_path / "prewarmed"
    change = f"import pathlib; zygote.prewarm_spark = pathlib.Path({str(mark)!r}).touch"
    with run_zygote(change) as (_, control), fork_runner(control):
        assert mark.exists()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_zygote_forks_runners_from_a_single_thread(change: str):
    with run_zygote(change) as (process, control):
        runner = fork_runner(control)
        assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 1
        was_restarted = b"no-prewarm" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert was_restarted == (change != "pass")
        # A runner ends when its channel is closed.
        runner.close()
        report = report_of(control)
        assert report == Exited(runner=1, pid=report.pid, status=0)
        control.close()
        assert process.wait(20) == 0


DRAW = """
import numpy, random
zygote.serve_as_runner = lambda connection: connection.sendall(
    b"%d %d" % (numpy.random.randint(2**62), random.getrandbits(62))
)
"""


def test_sibling_runners_draw_different_random_numbers():
    with run_zygote(DRAW) as (_, control):
        drawn = []
        for _ in range(2):
            with fork_runner(control) as runner:
                drawn.append(runner.recv(1000).split())
            assert isinstance(report_of(control), Exited)
    first, second = drawn
    assert len(first) == 2
    assert first[0] != second[0]
    assert first[1] != second[1]
