"""Changes to PySpark's client: fewer calls for an action, and UDFs made without a session."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.connect.udf import UserDefinedFunction as ConnectUdf
from pyspark.sql.udf import UserDefinedFunction as ClassicUdf


@contextmanager
def single_call(client: Any) -> Iterator[None]:
    """Let an action without result rows, such as a write, take a single call to the server.

    By default the server keeps each answer until the client acknowledges it, so that a client whose
    connection broke can attach again. That takes more calls and threads on both sides, and the last
    call may come after the end of the session, which fills the server's log with errors. Here it
    buys nothing: a connection between two processes of one machine breaks when one of them ends,
    and then the task ends too. The call is not retried either, since that would write twice.

    Does nothing for a classic session, which has no client (None).

    Do not use this for actions with result rows: Spark would send them faster than they are read.
    Calls that other threads make with the same client meanwhile are not retried either.
    """
    if client is None:
        yield
        return
    policies = client.get_retry_policies()
    client.set_retry_policies([])
    client.disable_reattachable_execute()
    try:
        yield
    finally:
        client.enable_reattachable_execute()
        client.set_retry_policies(policies)


def skip_compression_question(client: Any) -> None:
    """Turn the compression of plans off, since the server is on the same machine.

    This saves a call: before its first plan, a client asks from which size on to compress plans.
    """
    if hasattr(client, "_plan_compression_threshold"):
        client._plan_compression_threshold = -1
        client._plan_compression_algorithm = "NONE"


def run_classic_udfs_on_connect() -> None:
    """Let UDFs that were made without a Spark Connect session be used in one.

    A job's file is usually loaded in a plain Python, where PySpark makes UDFs of its classic kind.
    These need a JVM in their own process, which a runner does not have. Use this only in processes
    that never have a classic session.
    """

    def call(self: Any, *columns: Any, **named: Any) -> Any:
        return ConnectUdf(
            self.func,
            returnType=self._returnType,
            name=self._name,
            evalType=self.evalType,
            deterministic=self.deterministic,
        )(*columns, **named)

    setattr(ClassicUdf, "__call__", call)  # noqa: B010
