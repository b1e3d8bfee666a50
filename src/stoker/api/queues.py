"""Answers about queues and draining. Flink has no such thing, so the words are Stoker's."""

from stoker.api.shape import Answer
from stoker.core.ids import JobId


class Queue(Answer, frozen=True, kw_only=True):
    name: str
    running: int
    """Jobs that had their turn and have not ended."""
    max_running: int | None
    slots: int
    """The most that these may use together."""
    max_slots: int | None
    waiting: list[JobId]
    """In the order of their turn, as it is now."""


class Queues(Answer, frozen=True, kw_only=True):
    """GET /queues"""

    queues: list[Queue]
