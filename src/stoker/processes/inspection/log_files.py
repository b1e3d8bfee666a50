"""The log files of a process: the files in its log directory, and the file that gets its output."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

MAX_PIECE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class LogFile:
    name: str
    size: int
    modified: int
    """Milliseconds since 1970."""


class LogFiles:
    """Only names from the listing can be read, whatever path a name may spell."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def listing(self) -> list[LogFile]:
        found = []
        for name, path in sorted(self._paths().items()):
            try:
                facts = path.stat()
            except OSError:
                continue
            found.append(
                LogFile(name=name, size=facts.st_size, modified=facts.st_mtime_ns // 10**6)
            )
        return found

    def main_log(self) -> str | None:
        """Name of the file to which the process logs; None when it does not log to a file."""
        return self._name_of(_output(2))

    def main_output(self) -> str | None:
        return self._name_of(_output(1))

    def read(self, name: str, offset: int, length: int) -> bytes | None:
        """A piece of the file, at most 1 MiB; None when there is no such log."""
        path = self._paths().get(name)
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(min(length, MAX_PIECE))
        except OSError:
            return None

    def _paths(self) -> dict[str, Path]:
        paths = {path.name: path for path in (_output(1), _output(2)) if path is not None}
        if self._directory is not None and self._directory.is_dir():
            for path in self._directory.iterdir():
                if path.is_file() and not path.is_symlink():
                    paths.setdefault(path.name, path)
        return paths

    def _name_of(self, path: Path | None) -> str | None:
        return None if path is None else path.name


def _output(descriptor: int) -> Path | None:
    """The regular file behind standard output or error, if it is one."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    except OSError:
        return None
