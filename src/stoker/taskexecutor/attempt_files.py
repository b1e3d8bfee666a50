"""The directory and the logs of each attempt.

The directory is made before the attempt starts and removed after it has ended. Its logs can be read
meanwhile and afterwards, and are copied to the storage, where they outlive the task executor.

The directory belongs to the job's code, which may put a pipe, a device or a link in the place of a
log. Reading one must not block the task executor, nor tell what other files hold.
"""

import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.blob.transfer import OffLoop
from stoker.core.errors import NotFound, StorageUnavailable
from stoker.core.ids import AttemptId, JobId
from stoker.gateways.attempt_logs import LARGEST_PIECE, LogPiece, LogStream
from stoker.ha.keys import LOG_CHUNK_BYTES, log_chunk
from stoker.osproc.regular_file import NotRegular, open_regular
from stoker.storage.contract import Storage
from stoker.storage.room import CheckRoom, no_limit

log = logging.getLogger(__name__)

LEFT_BEHIND = "left-behind"
"""Directory for the logs of attempts that a previous instance of this task executor left."""


def attempt_directory(work_dir: Path, attempt: AttemptId) -> Path:
    """Directory of an attempt until it has ended."""
    return work_dir / "attempts" / attempt


def archived_logs(log_dir: Path, job_id: JobId, attempt: AttemptId) -> Path:
    """Directory of the logs of an attempt after it has ended."""
    return log_dir / "attempts" / job_id / attempt


class AttemptFiles:
    def __init__(self, work_dir: Path, log_dir: Path, off_loop: OffLoop) -> None:
        self._work_dir = work_dir
        self._log_dir = log_dir
        self._off_loop = off_loop

    def make_directory(self, attempt: AttemptId) -> Path:
        directory = attempt_directory(self._work_dir, attempt)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    async def archive(self, job_id: JobId, attempt: AttemptId) -> bool:
        """Move the logs of the attempt to their archive and remove the rest.

        Returns whether there are any logs.
        """
        directory = attempt_directory(self._work_dir, attempt)
        kept = archived_logs(self._log_dir, job_id, attempt)
        return await self._off_loop(_archive, directory, kept)

    async def archive_leftovers(self) -> None:
        """Archive the attempts of a previous instance that died before it did so."""
        await self._off_loop(self._archive_all)

    async def remove_old_logs(self, since: float, limit: int = 0) -> None:
        """Remove logs that were last written before `since`, in seconds since 1970.

        Of the others, the oldest are removed as far as all have more than `limit` bytes together;
        0 means no limit.
        """
        try:
            await self._off_loop(self._remove_old_logs, since, limit)
        except OSError as error:
            # The task executor works without this; the next round tries again.
            log.warning("old logs could not be removed: %s", error)

    def _remove_old_logs(self, since: float, limit: int) -> None:
        logs = self._log_dir / "attempts"
        kept = [_kept_logs(directory) for directory in logs.glob("*/*")]
        for directory in to_remove(kept, since, limit):
            shutil.rmtree(directory, ignore_errors=True)
        for job in logs.glob("*"):
            # A new directory stays: another attempt may be about to move its logs there.
            if not _is_newer(job, since):
                with suppress(OSError):
                    job.rmdir()

    def _archive_all(self) -> None:
        attempts = self._work_dir / "attempts"
        if attempts.is_dir():
            for directory in attempts.iterdir():
                _archive(directory, self._log_dir / "attempts" / LEFT_BEHIND / directory.name)


@dataclass(frozen=True)
class KeptLogs:
    """The logs of an ended attempt."""

    directory: Path
    size: int
    written: float
    """Time of the last write, in seconds since 1970."""


def to_remove(kept: Iterable[KeptLogs], since: float, limit: int) -> list[Path]:
    """The directories whose logs are too old, or beyond the limit of all; 0 means no limit."""
    removed, total = [], 0
    for logs in sorted(kept, key=lambda each: each.written, reverse=True):
        total += logs.size
        if logs.written < since or 0 < limit < total:
            removed.append(logs.directory)
    return removed


def _kept_logs(directory: Path) -> KeptLogs:
    size, written = 0, 0.0
    for path in (directory, *directory.glob("*.log")):
        with suppress(FileNotFoundError):
            about = path.lstat()
            written = max(written, about.st_mtime)
            if stat.S_ISREG(about.st_mode):
                size += about.st_size
    return KeptLogs(directory, size, written)


def _is_newer(path: Path, since: float) -> bool:
    try:
        return path.stat().st_mtime >= since
    except FileNotFoundError:
        return False


def _archive(directory: Path, kept: Path) -> bool:
    try:
        has_logs = _move_logs(directory, kept)
    except OSError as error:
        log.warning("the logs in %s are lost: %s", directory, error)
        has_logs = kept.is_dir()
    shutil.rmtree(directory, onerror=_make_writable_and_remove)
    return has_logs


def _move_logs(directory: Path, kept: Path) -> bool:
    logs = [path for path in directory.glob("*.log") if _has_content(path)]
    if logs:
        kept.mkdir(parents=True, exist_ok=True)
        for path in logs:
            shutil.move(path, kept / path.name)
    return bool(logs)


def _has_content(path: Path) -> bool:
    about = path.lstat()
    return stat.S_ISREG(about.st_mode) and about.st_size > 0


def _make_writable_and_remove(remove: Callable[..., Any], path: str, _error: object) -> None:
    """Remove a path that a task made read-only; a path that still resists is left in place."""
    try:
        for each in (os.path.dirname(path), path):
            if not os.path.islink(each):
                os.chmod(each, stat.S_IRWXU)
        remove(path)
        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        return


class AttemptLogs:
    def __init__(
        self,
        work_dir: Path,
        log_dir: Path,
        storage: Storage,
        off_loop: OffLoop,
        check_room: CheckRoom = no_limit,
    ) -> None:
        """`check_room` tells whether the storage has room for so many bytes of logs."""
        self._work_dir = work_dir
        self._log_dir = log_dir
        self._storage = storage
        self._off_loop = off_loop
        self._check_room = check_room

    async def read(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        """Raise NotFound if the attempt never ran here."""
        return await self._off_loop(self._read, job_id, attempt, stream, offset)

    def _read(self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int) -> LogPiece:
        running = attempt_directory(self._work_dir, attempt)
        archived = archived_logs(self._log_dir, job_id, attempt)
        is_running = running.is_dir()
        for place in (running, archived):
            try:
                with open_regular(place / f"{stream}.log") as file:
                    file.seek(offset)
                    data = file.read(LARGEST_PIECE)
            except FileNotFoundError:
                continue
            except NotRegular:
                note = b"[stoker: the task has replaced its log by something that is no file]\n"
                return LogPiece(data=note[offset:], complete=not is_running)
            return LogPiece(data=data, complete=not is_running and len(data) < LARGEST_PIECE)
        if is_running or archived.is_dir():
            return LogPiece(complete=not is_running)
        raise NotFound(f"no log of attempt {attempt} is here", attempt=attempt)

    async def copy_to_storage(self, job_id: JobId, attempt: AttemptId) -> None:
        """Copy the logs of an ended attempt to where they outlive this task executor.

        A failed copy is logged and not repeated.
        """
        for stream in LogStream:
            try:
                await self._copy_to_storage(job_id, attempt, stream)
            # User code may have made its log unreadable, which must harm no other task.
            except (StorageUnavailable, OSError) as error:
                log.warning(
                    "the %s of attempt %s could not be copied to the storage: %s",
                    stream,
                    attempt,
                    error,
                )

    async def _copy_to_storage(self, job_id: JobId, attempt: AttemptId, stream: LogStream) -> None:
        path = archived_logs(self._log_dir, job_id, attempt) / f"{stream}.log"
        number = 0
        while data := await self._off_loop(_read_chunk, path, number):
            await self._check_room(len(data))
            await self._storage.write(log_chunk(job_id, attempt, stream, number), data)
            number += 1


def _read_chunk(path: Path, number: int) -> bytes:
    try:
        with open_regular(path) as file:
            file.seek(number * LOG_CHUNK_BYTES)
            return file.read(LOG_CHUNK_BYTES)
    except FileNotFoundError:
        return b""
