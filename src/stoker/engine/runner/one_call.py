"""Actions that are carried out by a single call to the Spark server, and by no second one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def single_call(client: Any) -> Iterator[None]:
    """For what answers without data, such as a write.

    Else the server keeps each answer until it is told that it arrived, and a client whose
    connection broke takes it up again. That takes further calls and threads at both ends, and the
    last of those calls may come after the end of the session, which fills the server's log with
    errors. Between two processes of a machine a connection breaks when one of them ends, and then
    the task ends too. Nor is the call tried again: what was written would be written twice.

    Not for answers with data: Spark would send them as fast as it can, whoever reads them. What
    other threads ask the same client meanwhile, such as an interrupt, is not tried again either.
    """
    policies = client.get_retry_policies()
    client.set_retry_policies([])
    client.disable_reattachable_execute()
    try:
        yield
    finally:
        client.enable_reattachable_execute()
        client.set_retry_policies(policies)


def skip_compression_question(client: Any) -> None:
    """Before its first plan, a client asks from what size on plans are compressed.

    To a server on the same machine they never need to be.
    """
    if hasattr(client, "_plan_compression_threshold"):
        client._plan_compression_threshold = -1
        client._plan_compression_algorithm = "NONE"
