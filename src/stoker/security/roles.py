"""What the holder of a token may do."""

import re
from enum import StrEnum


class Role(StrEnum):
    READ = "read"
    """Everything that changes nothing."""
    SUBMIT = "submit"
    """Hand in jobs and programs, and ask about one whose id is known; no list, no cancel."""
    OPERATE = "operate"
    """Everything."""


_QUESTIONS = frozenset({"GET", "HEAD", "OPTIONS"})
_CHANGES_BY_QUESTION = re.compile(r"/jobs/[^/]+/yarn-(cancel|stop)")
"""Flink's dashboard cancels by GET."""
_SUBMISSIONS = re.compile(r"/jobs|/jars/upload|/jars/[^/]+/(run|plan)|/jobs/[^/]+/heartbeat")
_OF_ONE_JOB = re.compile(r"/jobs/(?!overview)[^/]+(/.*)?|/overview|/config|/openapi\.json")


def allows(role: Role, method: str, path: str) -> bool:
    """`path` is without the version prefix."""
    asks = method in _QUESTIONS and not _CHANGES_BY_QUESTION.fullmatch(path)
    match role:
        case Role.OPERATE:
            return True
        case Role.READ:
            return asks
        case Role.SUBMIT:
            if asks:
                return _OF_ONE_JOB.fullmatch(path) is not None
            return method in ("POST", "PATCH") and _SUBMISSIONS.fullmatch(path) is not None
