"""Answers about queues, the quarantine and the audit log.

Flink has nothing like them, so the field names are Stoker's own.
"""

from stoker.api.shape import Answer
from stoker.core.ids import JobId
from stoker.core.values import Millis
from stoker.security.audit_entries import AuditEntry
from stoker.security.tokens import Permission, Role


class QueueAnswer(Answer, frozen=True, kw_only=True):
    name: str
    running: int
    """Jobs that were admitted and have not ended."""
    max_running: int | None
    slots: int
    """Largest number of slots that the running jobs may use together."""
    max_slots: int | None
    waiting: list[JobId]
    """In the order in which they would be admitted now."""
    slots_in_use: int = 0
    waiting_for_slots: int = 0
    """How many of the jobs that were admitted have no slot yet."""


class QueuesAnswer(Answer, frozen=True, kw_only=True):
    """GET /queues"""

    queues: list[QueueAnswer]


class QuarantinedJobAnswer(Answer, frozen=True, kw_only=True):
    """An accepted job that cannot be loaded."""

    job_id: JobId
    reason: str
    since: Millis
    pointer: str | None
    """Path of the job graph in the storage; None if unknown."""
    cancel_wanted: bool


class QuarantineAnswer(Answer, frozen=True, kw_only=True):
    """GET /quarantine"""

    jobs: list[QuarantinedJobAnswer]


class AuditAnswer(Answer, frozen=True, kw_only=True):
    """GET /audit"""

    entries: list[AuditEntry]


class SessionAnswer(Answer, frozen=True, kw_only=True):
    """GET and POST /session: who uses the web page."""

    token_wanted: bool
    """Whether callers of this cluster need a token."""
    name: str | None
    """Name of the token; without tokens, the user who runs the master. None before the log-in."""
    role: Role | None
    until: Millis | None
    """When the session ends; None for a caller with a token instead of a cookie."""
    allowed: list[Permission]
    version: str
    now: Millis
    epoch: int | None
    """Epoch of the leader; None while nobody leads."""


class SessionRequest(Answer, frozen=True, kw_only=True):
    """POST /session"""

    token: str = ""
