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
_ACTS_BY_QUESTION = re.compile(r"/jobs/[^/]+/yarn-(cancel|stop)|/jars/[^/]+/plan")
"""Flink's dashboard cancels by GET, and the plan of a program is made by running its file."""
_SUBMISSIONS = re.compile(r"/jobs|/jars/upload|/jars/[^/]+/(run|plan)|/jobs/[^/]+/clientHeartbeat")
_OF_ONE_JOB = re.compile(r"/jobs/(?!overview)[^/]+(/.*)?|/overview|/config|/openapi\.json")


def allows(role: Role, method: str, path: str) -> bool:
    """`path` is without the version prefix."""
    asks = method in _QUESTIONS and not _ACTS_BY_QUESTION.fullmatch(path)
    match role:
        case Role.OPERATE:
            return True
        case Role.READ:
            return asks
        case Role.SUBMIT:
            if asks:
                return _OF_ONE_JOB.fullmatch(path) is not None
            return method in ("GET", "POST", "PATCH") and _SUBMISSIONS.fullmatch(path) is not None
