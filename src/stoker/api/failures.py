"""How an answer says why something failed."""

import msgspec

from stoker.api.shape import Dashed


class FailureCause(Dashed, frozen=True, kw_only=True):
    error: str = msgspec.field(name="class")
    stack_trace: str
    serialized_throwable: bytes = b""
    """For Flink's client, which reads no other field: see `rest/flink/java_throwable.py`."""
