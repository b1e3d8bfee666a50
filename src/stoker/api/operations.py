"""Answers about operations that go on after their request was answered."""

from typing import Any

from stoker.api.shape import Answer, Dashed

IN_PROGRESS = "IN_PROGRESS"
COMPLETED = "COMPLETED"


class Triggered(Dashed, frozen=True, kw_only=True):
    """What a request that triggers an operation is answered with: the id to ask for it by."""

    request_id: str


class OperationStatus(Answer, frozen=True, kw_only=True):
    id: str
    """IN_PROGRESS or COMPLETED."""


class OperationAnswer(Answer, frozen=True, kw_only=True):
    """GET …/:triggerid"""

    status: OperationStatus
    operation: dict[str, Any] | None = None
    """The result; with `failure-cause` where it failed. null while it goes on, as Flink says."""
