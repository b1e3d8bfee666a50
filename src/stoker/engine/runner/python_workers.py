"""Which of Spark's Python workers belong to a session: by an id that Spark gives them."""

import re
from typing import Any

from pyspark.errors import PySparkException

from stoker.osproc.process_tree import children_of, program_of

# Over a literal table, since Spark computes that in the driver, where the session is known.
ASK = (
    "SELECT reflect('org.apache.spark.JobArtifactSet', 'getCurrentJobArtifactState') AS state "
    "FROM VALUES (1)"
)
_NO_WORKERS = ("", "java", "jspawnhelper", "rm")
"""Spark removes a session's files by a command: at busy times there is always one of those."""
_ID = re.compile(r"JobArtifactState\(([0-9a-f-]{36})")


def workers_of(session: Any, server_pid: int) -> str:
    """The mark of the session's workers; empty when the server has no workers at all.

    Spark has no call for it, but its own state tells.
    """
    if not server_pid or not workers_at(server_pid):
        return ""
    try:
        return id_in(str(session.sql(ASK).collect()[0][0]))
    except PySparkException:
        return ""


def workers_at(server_pid: int) -> list[int]:
    """The processes that they are forked from. Not what is just about to become one: a session
    that is asked for at its end has its workers."""
    return [child for child in children_of(server_pid) if program_of(child) not in _NO_WORKERS]


def id_in(state: str) -> str:
    found = _ID.search(state)
    return found.group(1) if found else ""
