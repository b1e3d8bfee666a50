"""What each role may do."""

import pytest

from stoker.security.tokens import Role, allows

JOB = "/jobs/0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("method", "path", "read", "submit"),
    [
        ("GET", "/jobs/overview", True, False),
        ("GET", "/jobs", True, False),
        ("GET", "/jobs/metrics", True, False),
        ("GET", "/taskmanagers", True, False),
        ("GET", "/overview", True, True),
        ("GET", "/openapi.json", True, True),
        ("GET", JOB, True, True),
        ("GET", f"{JOB}/status", True, True),
        ("POST", "/jobs", False, True),
        ("POST", "/jars/upload", False, True),
        ("POST", "/jars/abc/run", False, True),
        ("PATCH", f"{JOB}/clientHeartbeat", False, True),
        ("GET", "/jars/abc/plan", False, True),
        ("GET", "/jars", True, False),
        ("PATCH", JOB, False, False),
        ("GET", f"{JOB}/yarn-cancel", False, False),
        ("GET", f"{JOB}/yarn-stop", False, False),
        ("POST", f"{JOB}/savepoints", False, False),
        ("DELETE", "/jars/abc", False, False),
        ("DELETE", "/cluster", False, False),
        ("POST", "/quarantine/abc/retry", False, False),
    ],
)
def test_a_role_allows_no_more_than_it_says(
    method: str, path: str, read: bool, submit: bool
) -> None:
    assert allows(Role.READ, method, path) is read
    assert allows(Role.SUBMIT, method, path) is submit
    assert allows(Role.OPERATE, method, path)
