"""Answers about the output of attempts."""

from stoker.api.shape import Dashed


class LogAnswer(Dashed, frozen=True, kw_only=True):
    """GET /jobs/:jobid/attempts/:attempt/log"""

    data: bytes
    """In base64, since a program may write anything, and a piece may end within a character."""
    next_offset: int
    """Where the next piece begins."""
    complete: bool
    """Nothing comes after this piece."""
