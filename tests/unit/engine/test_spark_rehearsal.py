"""What a process that forks has of PySpark's client after it has spoken with nobody."""

import subprocess
import sys

REHEARSAL = """
import os
from collections import Counter
from pyspark.sql.connect.session import SparkSession
from stoker.engine.spark_rehearsal import rehearse_spark

def state():
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), dict(os.environ)

before = state()
calls = Counter(rehearse_spark())
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
