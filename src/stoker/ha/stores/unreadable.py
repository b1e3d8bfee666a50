"""A record that is there and cannot be used: kept, shown, and in nobody's way."""

from dataclasses import dataclass

from stoker.core.ids import JobId


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    job_id: JobId
    reason: str
    pointer: str | None = None
    """Where the content is or should be, if the record says so."""
