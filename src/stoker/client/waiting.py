"""Telling of a job's changes while its end is awaited."""

from collections.abc import Callable

from stoker.api.replacements import ReplacementState
from stoker.core.states import JobStatus

TellStatus = Callable[[JobStatus], None]

BEFORE_THE_END = tuple(status for status in JobStatus if not status.globally_terminal)


def tell_nobody(_status: JobStatus) -> None:
    """For those who wait for the end only."""


TellPhase = Callable[[ReplacementState], None]


def tell_no_phase(_state: ReplacementState) -> None:
    """For those who only want to know how it ended."""
