"""Telling of a job's changes while its end is awaited."""

from collections.abc import Callable

from stoker.core.states import JobStatus

TellStatus = Callable[[JobStatus], None]


def tell_nobody(_status: JobStatus) -> None:
    """For those who wait for the end only."""
