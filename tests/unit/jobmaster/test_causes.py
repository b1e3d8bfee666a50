"""What kind of thing broke, by what is told of it."""

import pytest

from stoker.core.results import Failure
from stoker.jobmaster.causes import cause_of, label_cause


@pytest.mark.parametrize(
    ("error", "message", "trace", "cause"),
    [
        ("TaskExecutorLost", "its process is gone", "", "task-executor-lost"),
        ("RunnerDied", "killed; the machine may have run out of memory", "", "out-of-memory"),
        ("SparkException", "java.lang.OutOfMemoryError: Java heap space", "", "out-of-memory"),
        ("MemoryError", "", "In the job's code", "out-of-memory"),
        ("ModuleNotFoundError", "No module named 'numpyy'", "In the job's code", "dependency"),
        ("PythonException", "ModuleNotFoundError: No module named 'x'", "", "dependency"),
        ("UserCodeMismatch", "pandas 1 there", "", "dependency"),
        ("StorageUnavailable", "cannot read", "", "storage"),
        ("OSError", "[Errno 28] No space left on device", "In the job's code", "storage"),
        ("ResultDamaged", "a file is missing", "", "storage"),
        ("SparkServerDied", "exit status 1", "", "spark"),
        ("RunnerDied", "exit status 3", "", "spark"),
        ("StreamingQueryException", "stopped", "", "spark"),
        ("PythonException", "ValueError: 3", "", "user-code"),
        ("LookupError", "no such tree", "In the job's code (most recent call first)", "user-code"),
    ],
)
def test_each_kind_of_failure_has_its_label(
    error: str, message: str, trace: str, cause: str
) -> None:
    assert cause_of(Failure(error=error, message=message, stack_trace=trace)) == cause


def test_a_cause_that_is_known_already_stays() -> None:
    assert label_cause(Failure(error="X", message="", labels={"cause": "resources"})) == {}
