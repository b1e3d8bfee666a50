"""Fencing tokens: who may command, and since when."""

from stoker.core.ids import SessionId
from stoker.core.values import Value


class FencingToken(Value, order=False):
    """Leadership as it travels with calls.

    Receivers remember the highest epoch they have seen, refuse lower ones and adopt a higher one;
    within an epoch the session must be equal.
    """

    epoch: int
    session: SessionId

    def __str__(self) -> str:
        return f"{self.epoch}:{self.session[:8]}"
