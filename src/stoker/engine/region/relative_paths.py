"""What the relative paths of a job refer to: the directory in which it was submitted.

Spark resolves a relative path against the working directory of its own process, which many jobs
share. So paths become absolute before Spark sees them, or are refused if the caller's directory is
not here. Whatever is overlooked fails in Spark: its processes work in `NOWHERE`.
"""

import os
import re
from pathlib import Path
from urllib.parse import unquote

from stoker.core.graph import CallerDirectory, JobGraph, caller_of
from stoker.core.spark_paths import find_here, is_relative
from stoker.engine.failures import CannotRun

_NOT_FOUND = re.compile(r"Path does not exist: (?:file:)?(/.*?)\.(?:\s|$)")


class RelativePaths:
    def __init__(self, caller: CallerDirectory | None) -> None:
        self._caller = caller
        self.base: Path | None = find_here(caller) if caller is not None else None
        """The caller's directory; None if this process cannot reach it."""
        self._as_written: dict[str, str] = {}
        """The relative paths that became absolute here or before, by their absolute form."""

    def prefix(self, path: str, place: str) -> str:
        """What to put before the path so that it is absolute; raises CannotRun if nobody knows.

        `place` is where the path stands, for the error.
        """
        if not is_relative(path):
            return ""
        prefix = f"{str(self._required_base(path, place)).rstrip('/')}/"
        self._as_written[os.path.normpath(prefix + path)] = path
        return prefix

    def absolute(self, path: str, place: str, was_relative: bool = False) -> str:
        """The absolute path, which may have become absolute in the caller's directory before."""
        if was_relative:
            base = self._required_base(path, place)
            if not is_relative(path):
                self._as_written[os.path.normpath(path)] = os.path.relpath(path, base)
        return self.prefix(path, place) + path

    def hint(self, message: str) -> str | None:
        """What the path was relative to that Spark did not find, if it was a relative one."""
        found = _NOT_FOUND.search(message)
        if found is None or self.base is None:
            return None
        paths = {os.path.normpath(path) for path in (found[1], unquote(found[1]))}
        written = next((self._as_written[p] for p in paths if p in self._as_written), None)
        if written is None:
            return None
        return (
            f"{written} is relative to {self.base}, the directory in which the job was submitted; "
            "a file beside that of the job is named, in a source or in the default of a "
            f"parameter, by ${{job_directory}}/{written}"
        )

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
