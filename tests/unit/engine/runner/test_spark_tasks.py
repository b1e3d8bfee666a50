"""What Spark's monitoring says of jobs, and which of them are asked about further."""

import pytest

from stoker.engine.runner.spark_tasks import is_owned, may_have_tasks


@pytest.mark.parametrize(
    ("status", "active", "expected"),
    [
        ("RUNNING", 0, True),
        ("RUNNING", 2, True),
        ("FAILED", 0, True),
        ("UNKNOWN", 0, True),
        ("SUCCEEDED", 1, True),
        ("SUCCEEDED", 0, False),
    ],
)
def test_only_a_job_that_succeeded_is_known_to_have_no_tasks(
    status: str, active: int, expected: bool
) -> None:
    assert may_have_tasks({"status": status, "numActiveTasks": active}) is expected


def test_a_job_belongs_to_the_session_that_its_group_or_a_tag_names() -> None:
    assert is_owned({"jobGroup": "run-1"}, {"run-1"})
    assert is_owned({"jobTags": ["spark-connect-session-s1"]}, {"s1"})
    assert not is_owned({"jobGroup": "run-2", "jobTags": []}, {"run-1", "s1"})
