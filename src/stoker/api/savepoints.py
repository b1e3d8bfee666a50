"""Requests and answers about savepoints; those that Flink has, in its words."""

from typing import Any

from stoker.api.shape import Answer
from stoker.core.checkpoints import SavepointSummary


class Savepoints(Answer, frozen=True, kw_only=True):
    """GET /savepoints"""

    savepoints: list[SavepointSummary]


class SavepointOutcome(Answer, frozen=True, kw_only=True):
    """What became of a triggered operation, as a client sees it."""

    done: bool
    location: str | None = None
    number: int | None = None
    """Of a checkpoint."""
    failure: str | None = None


def outcome_of(answer: dict[str, Any]) -> SavepointOutcome:
    """From the body that every asynchronous operation is answered with."""
    if answer.get("status", {}).get("id") != "COMPLETED":
        return SavepointOutcome(done=False)
    operation = answer.get("operation") or {}
    cause = operation.get("failure-cause")
    if cause is not None:
        text = str(cause.get("stack-trace") or cause.get("class"))
        return SavepointOutcome(done=True, failure=text.partition(": ")[2] or text)
    return SavepointOutcome(
        done=True, location=operation.get("location"), number=operation.get("checkpointId")
    )
