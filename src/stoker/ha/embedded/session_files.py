"""Session files: a live session holds a lock on its file, and the kernel drops it with the process.

The lock belongs to the open file. So a child that is forked without exec keeps it, and a network
file system may not support it: keep the directory on a local disk, and start children with exec.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from stoker.core.errors import CoordinatorUnavailable


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CoordinatorUnavailable(
            f"the coordinator's sessions in {path} cannot be examined: {error.strerror}; check "
            "that this user may write there",
            path=str(path),
        ) from error


class SessionFiles:
    """The session files of one directory. Calls may block, and raise CoordinatorUnavailable."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with _translated(directory):
            directory.mkdir(parents=True, exist_ok=True)

    def begin(self, session: str) -> "HeldSession":
        path = self._directory / session
        while True:
            with _translated(path):
                descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            held = HeldSession(path, descriptor)
            try:
                with _translated(path):
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                if held.is_valid():
                    return held
            except CoordinatorUnavailable:
                held.end()
                raise
            # The file was not locked yet, and another process removed it as that of a dead session.
            held.end()

    def is_alive(self, session: str) -> bool:
        with _translated(self._directory):
            return self._is_locked(self._directory / session)

    def _is_locked(self, path: Path) -> bool:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def forget(self, session: str) -> None:
        """Remove the file of a dead session."""
        with _translated(self._directory):
            self._remove_unlocked(self._directory / session)

    def _remove_unlocked(self, path: Path) -> None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            return
        finally:
            os.close(descriptor)

    def dead(self) -> list[str]:
        """Sessions that have ended without removing their file."""
        with _translated(self._directory):
            names = sorted(path.name for path in self._directory.iterdir())
        return [name for name in names if not self.is_alive(name)]


class HeldSession:
    """A session that lives as long as this object holds its lock."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor

    def is_valid(self) -> bool:
        """False when the file was removed: for all others the session is dead."""
        if self._descriptor is None:
            return False
        with _translated(self._path):
            try:
                there = os.stat(self._path)
            except FileNotFoundError:
                return False
            return os.path.samestat(there, os.fstat(self._descriptor))

    def end(self) -> None:
        """Remove the file and release the lock. Idempotent."""
        if self._descriptor is None:
            return
        try:
            if self.is_valid():
                with _translated(self._path):
                    self._path.unlink(missing_ok=True)
        finally:
            os.close(self._descriptor)
            self._descriptor = None
