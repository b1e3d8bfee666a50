import subprocess
import sys

import pytest

from stoker.core.failpoints import UnknownFailpoint, armed, failpoint

HIT_THRICE = """
from stoker.core.failpoints import failpoint
for number in range(3):
    print(number, flush=True)
    failpoint("cancellations.before-record")
"""


def test_an_unarmed_failpoint_does_nothing():
    failpoint("cancellations.before-record")


def test_an_armed_failpoint_calls_back_until_the_block_ends():
    hits: list[int] = []
    with armed("cancellations.before-record", lambda: hits.append(1)):
        failpoint("cancellations.before-record")
        failpoint("cancellations.after-record")
        with armed("cancellations.before-record", lambda: hits.append(2)):
            failpoint("cancellations.before-record")
        failpoint("cancellations.before-record")
    failpoint("cancellations.before-record")
    assert hits == [1, 2, 1]


def test_an_unknown_name_is_refused():
    with pytest.raises(UnknownFailpoint, match="no-such"):
        failpoint("no-such")
    with pytest.raises(UnknownFailpoint, match="no-such"), armed("no-such", lambda: None):
        pass


@pytest.mark.parametrize(
    ("setting", "printed", "status"),
    [
        ("cancellations.before-record", "0\n", 137),
        ("cancellations.before-record:2", "0\n1\n", 137),
        ("cancellations.after-record", "0\n1\n2\n", 0),
    ],
)
def test_the_environment_ends_a_process_at_a_failpoint(setting: str, printed: str, status: int):
    ended = subprocess.run(
        [sys.executable, "-c", HIT_THRICE],
        env={"STOKER_FAILPOINT": setting},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == (printed, status)


def test_a_wrong_name_in_the_environment_is_refused_at_the_start():
    ended = subprocess.run(
        [sys.executable, "-c", HIT_THRICE],
        env={"STOKER_FAILPOINT": "no-such"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "no-such" in ended.stderr
