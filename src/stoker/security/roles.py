"""Roles: what the holder of a token may do."""

import re
from enum import StrEnum


class Role(StrEnum):
    READ = "read"
    """Every request that changes nothing."""
    SUBMIT = "submit"
    """Submit jobs and programs, and query a job by its id; no lists, no cancel."""
    OPERATE = "operate"
    """Every request."""


_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_CHANGING_GETS = re.compile(r"/jobs/[^/]+/yarn-(cancel|stop)|/jars/[^/]+/plan")
"""Flink's dashboard cancels by GET, and the plan of a program is made by running its file."""
_SUBMISSIONS = re.compile(r"/jobs|/jars/upload|/jars/[^/]+/(run|plan)|/jobs/[^/]+/clientHeartbeat")
_OF_ONE_JOB = re.compile(r"/jobs/(?!overview)[^/]+(/.*)?|/overview|/config|/openapi\.json")


def allows(role: Role, method: str, path: str) -> bool:
    """Whether the role allows the request; `path` has no version prefix."""
    reads = method in _READING_METHODS and not _CHANGING_GETS.fullmatch(path)
    match role:
        case Role.OPERATE:
            return True
        case Role.READ:
            return reads
        case Role.SUBMIT:
            if reads:
                return _OF_ONE_JOB.fullmatch(path) is not None
            return method in ("GET", "POST", "PATCH") and _SUBMISSIONS.fullmatch(path) is not None
