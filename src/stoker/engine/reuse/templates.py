"""Template sessions, of which every other session starts as a copy.

How far a session is isolated is fixed before its client can make a call, unless the session is a
copy of one with other settings. Each scheduler pool of Spark has two templates: copies of the first
share the driver's class loader, copies of the second have their own (dedicated).

Files are never shared: Spark would give a task in a session without files those of all other
sessions, and their jars would stay in the process for later tasks.
"""

import uuid
from typing import Any

from pyspark.sql.connect.proto import base_pb2

_OWN_CLASS_LOADER_ALWAYS = "spark.sql.artifact.isolation.alwaysApplyClassloader"
_ISOLATION = "spark.sql.artifact.isolation.enabled"
_POOL = "spark.scheduler.pool"


def dedicated_template(template: str) -> str:
    """Id of the dedicated template that belongs to this shared one."""
    return str(uuid.uuid5(uuid.UUID(template), "own"))


def make_templates(client: Any, template: str, scheduler_pool: str) -> None:
    """Create both templates of a scheduler pool; does nothing if they exist."""
    for session, has_own_loader in ((template, "false"), (dedicated_template(template), "true")):
        request = base_pb2.ConfigRequest(session_id=session, client_type=client._builder.userAgent)
        request.user_context.user_id = client._user_id
        settings = {
            _OWN_CLASS_LOADER_ALWAYS: has_own_loader,
            _ISOLATION: "true",
            _POOL: scheduler_pool,
        }
        for key, value in settings.items():
            request.operation.set.pairs.add(key=key, value=value)
        client._stub.Config(request, metadata=client._builder.metadata())


def start_as_copy(client: Any, template: str) -> None:
    """Create this client's session, before its first call, as a copy of the template."""
    request = base_pb2.CloneSessionRequest(
        session_id=template,
        new_session_id=client._session_id,
        client_type=client._builder.userAgent,
    )
    request.user_context.user_id = client._user_id
    client._stub.CloneSession(request, metadata=client._builder.metadata())


def restart_as_copy(client: Any, template: str) -> None:
    """Replace this client's session by a fresh copy of the template, under the same id."""
    request = base_pb2.ReleaseSessionRequest(
        session_id=client._session_id,
        client_type=client._builder.userAgent,
        allow_reconnect=True,
    )
    request.user_context.user_id = client._user_id
    client._stub.ReleaseSession(request, metadata=client._builder.metadata())
    # The server would refuse requests that still name the released session.
    client._server_session_id = None
    start_as_copy(client, template)
