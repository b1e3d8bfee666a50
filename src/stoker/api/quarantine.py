"""Answers about jobs in quarantine. Flink has no such thing, so the words are Stoker's."""

from stoker.api.shape import Answer
from stoker.core.ids import JobId
from stoker.core.values import Millis


class Quarantined(Answer, frozen=True, kw_only=True):
    """An accepted job that cannot be loaded."""

    job_id: JobId
    reason: str
    since: Millis
    pointer: str | None
    """Where its content is or should be in the storage, if that is known."""
    cancel_wanted: bool


class QuarantinedJobs(Answer, frozen=True, kw_only=True):
    """GET /quarantine"""

    jobs: list[Quarantined]
