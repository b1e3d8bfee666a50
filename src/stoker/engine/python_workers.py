"""Which of Spark's Python workers belong to a session: by an id that Spark gives them."""

import re
from typing import Any

from pyspark.errors import PySparkException

from stoker.engine.process_tree import living_children_of

# Over a literal table, since Spark computes that in the driver, where the session is known.
_ASK = (
    "SELECT reflect('org.apache.spark.JobArtifactSet', 'getCurrentJobArtifactState') AS state "
    "FROM VALUES (1)"
)
_ID = re.compile(r"JobArtifactState\(([0-9a-f-]{36})")


def workers_of(session: Any, server_pid: int) -> str:
    """The mark of the session's workers; empty when the server has no workers at all.

    Spark has no call for it, but its own state tells.
    """
    if not server_pid or not living_children_of(server_pid):
        return ""
    try:
        return id_in(str(session.sql(_ASK).collect()[0][0]))
    except PySparkException:
        return ""


def id_in(state: str) -> str:
    found = _ID.search(state)
    return found.group(1) if found else ""
