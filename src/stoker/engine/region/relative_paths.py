"""What the relative paths of a job refer to: the directory in which it was submitted.

Spark resolves a relative path against the working directory of its own process, which many jobs
share. So paths become absolute before Spark sees them, or are refused if the caller's directory is
not here. Whatever is overlooked fails in Spark: its processes work in `NOWHERE`.
"""

from pathlib import Path

from stoker.core.graph import CallerDirectory, JobGraph, caller_of
from stoker.core.spark_paths import find_here, is_relative
from stoker.engine.failures import CannotRun


class RelativePaths:
    def __init__(self, caller: CallerDirectory | None) -> None:
        self._caller = caller
        self.base: Path | None = find_here(caller) if caller is not None else None
        """The caller's directory; None if this process cannot reach it."""

    def prefix(self, path: str, place: str) -> str:
        """What to put before the path so that it is absolute; raises CannotRun if nobody knows.

        `place` is where the path stands, for the error.
        """
        if not is_relative(path):
            return ""
        return f"{str(self._required_base(path, place)).rstrip('/')}/"

    def absolute(self, path: str, place: str, was_relative: bool = False) -> str:
        """The absolute path, which may have become absolute in the caller's directory before."""
        if was_relative:
            self._required_base(path, place)
        return self.prefix(path, place) + path

    def _required_base(self, path: str, place: str) -> Path:
        if self.base is None:
            raise CannotRun("RelativePath", self._refusal(path, place))
        return self.base

    def _refusal(self, path: str, place: str) -> str:
        problem = (
            "the job does not say to which directory it belongs"
            if self._caller is None
            else f"the directory in which the job was submitted, {self._caller.path}, is not on "
            "the machine that runs it"
        )
        return (
            f"{place}: the path {path} is relative, and {problem}; name an absolute path or a URL "
            "that the task executors can read, or upload the file to such a place first"
        )


def paths_of_job(graph: JobGraph) -> RelativePaths:
    return RelativePaths(caller_of(graph))
