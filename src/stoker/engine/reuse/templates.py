"""Sessions at the server that others begin as a copy of, with settings that they cannot make.

What a session keeps apart from others is settled before its client can say anything, unless it is
the copy of a session whose settings say so. There are two of them for each of Spark's pools: one
whose copies share the driver's classes, and one whose copies have all of their own.

Files are never shared: a task of a session without any of its own would be given those of all other
sessions, and keep their jars for whoever comes after.
"""

import uuid
from typing import Any

from pyspark.sql.connect.proto import base_pb2

_OWN_CLASS_LOADER_ALWAYS = "spark.sql.artifact.isolation.alwaysApplyClassloader"
_ISOLATION = "spark.sql.artifact.isolation.enabled"
_POOL = "spark.scheduler.pool"


def dedicated_template(template: str) -> str:
    """The id of the other one of the two."""
    return str(uuid.uuid5(uuid.UUID(template), "own"))


def make_templates(client: Any, template: str, scheduler_pool: str) -> None:
    """Leaves them as they are when they are there."""
    for session, own_classes in ((template, "false"), (dedicated_template(template), "true")):
        request = base_pb2.ConfigRequest(session_id=session, client_type=client._builder.userAgent)
        request.user_context.user_id = client._user_id
        settings = {
            _OWN_CLASS_LOADER_ALWAYS: own_classes,
            _ISOLATION: "true",
            _POOL: scheduler_pool,
        }
        for key, value in settings.items():
            request.operation.set.pairs.add(key=key, value=value)
        client._stub.Config(request, metadata=client._builder.metadata())


def begin_as_copy(client: Any, template: str) -> None:
    """The session of this client, which has not asked for anything yet."""
    request = base_pb2.CloneSessionRequest(
        session_id=template,
        new_session_id=client._session_id,
        client_type=client._builder.userAgent,
    )
    request.user_context.user_id = client._user_id
    client._stub.CloneSession(request, metadata=client._builder.metadata())


def restart_as_copy(client: Any, template: str) -> None:
    """The same session under the same id, without anything that was in it."""
    request = base_pb2.ReleaseSessionRequest(
        session_id=client._session_id,
        client_type=client._builder.userAgent,
        allow_reconnect=True,
    )
    request.user_context.user_id = client._user_id
    client._stub.ReleaseSession(request, metadata=client._builder.metadata())
    # By which the server would notice that it is another one.
    client._server_session_id = None
    begin_as_copy(client, template)
