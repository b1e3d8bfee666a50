"""A session at the server that others begin as a copy of, with settings that they cannot make.

Spark gives each session a class loader of its own, and compiles each query anew for each loader. A
session that has added no classes does not need that; but whether it has one is settled before its
client can say anything, unless it is the copy of a session whose settings say so.
"""

from typing import Any

from pyspark.sql.connect.proto import base_pb2

_OWN_CLASS_LOADER_ALWAYS = "spark.sql.artifact.isolation.alwaysApplyClassloader"
"""Without it a session has one from its first added file on."""
_POOL = "spark.scheduler.pool"


def make_template(client: Any, template: str, scheduler_pool: str) -> None:
    """Leaves it as it is when it is there."""
    request = base_pb2.ConfigRequest(session_id=template, client_type=client._builder.userAgent)
    request.user_context.user_id = client._user_id
    for key, value in ((_OWN_CLASS_LOADER_ALWAYS, "false"), (_POOL, scheduler_pool)):
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
