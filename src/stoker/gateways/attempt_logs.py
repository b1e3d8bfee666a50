"""What is asked and told about the output of attempts."""

from enum import StrEnum

from stoker.core.values import Value

LARGEST_PIECE = 256 * 1024
"""Bytes of a log that are read at once."""


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class LogPiece(Value):
    """Bytes of a log from an offset on; empty at its present end."""

    data: bytes = b""
    complete: bool = False
    """The attempt has ended, and nothing comes after these bytes."""
