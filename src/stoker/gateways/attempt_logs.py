"""Messages about the output of attempts."""

from enum import StrEnum

from stoker.core.values import Value

LARGEST_PIECE = 256 * 1024
"""Most bytes of a log that one call reads."""

FAILURE_MARK = "[stoker: the task failed]"
"""Line of an attempt's error stream that ends the output of user code; the failure follows."""


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class LogPiece(Value):
    """Bytes of a log from an offset on; empty at the present end of the log."""

    data: bytes = b""
    complete: bool = False
    """The attempt has ended, and these bytes are the last ones of its log."""
