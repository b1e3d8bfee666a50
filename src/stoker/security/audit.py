"""The audit log: who changed what, and who was refused.

One line of JSON for each change that a caller asked for and for each refusal. The masters of one
machine that have the same working directory share the file, so it is locked while one of them
appends or rotates.

Invariant: the line of a change is in the file before its caller gets the answer. A log that cannot
be written stops nobody: the entry then goes to the log of the process, as an error.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from stoker.core.values import Millis, decode_json
from stoker.security.audit_entries import AuditEntry
from stoker.security.options import AuditOptions

log = logging.getLogger(__name__)

_OWNER_ONLY = 0o600
_FOLDER_OF_OWNER = 0o700
_DEFAULT_FILE = "audit/audit.jsonl"
MAX_TEXT = 500
"""Longer texts of callers are cut, so that nobody fills the log with one request."""


@dataclass(frozen=True, kw_only=True)
class AuditQuery:
    limit: int = 100
    caller: str | None = None
    object: str | None = None
    """The object, or the beginning of it."""

    def wants(self, entry: AuditEntry) -> bool:
        return self.caller in (None, entry.caller) and entry.object.startswith(self.object or "")


def audit_time(now: Millis) -> str:
    moment = datetime.fromtimestamp(now / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def outcome_of(status: int) -> str:
    if status < 400:
        return "done"
    return "refused" if status < 500 else "failed"


def audit_file(options: AuditOptions, working_dir: Path) -> Path:
    """`working_dir` is the directory that holds those of all processes of the machine."""
    return options.file.expanduser() if options.file else working_dir / _DEFAULT_FILE


class AuditLog:
    def __init__(self, file: Path, options: AuditOptions) -> None:
        self._file = file
        self._max_bytes = int(options.max_size)
        self._max_files = options.max_files
        self._pending: list[bytes] = []
        self._writing = asyncio.Lock()

    async def append(self, entry: AuditEntry) -> None:
        """Returns when the entry is in the file. Entries that come together share one write."""
        self._pending.append(msgspec.json.encode(_shortened(entry)) + b"\n")
        async with self._writing:
            # Another call may have written the entry; it has returned, since it had the lock.
            lines, self._pending = self._pending, []
            if lines:
                await asyncio.to_thread(self._write, lines)

    async def read(self, query: AuditQuery) -> list[AuditEntry]:
        """The newest entries that match, newest first."""
        return await asyncio.to_thread(self._read, query)

    def _write(self, lines: list[bytes]) -> None:
        try:
            with self._locked():
                self._rotate_before(sum(map(len, lines)))
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
                with open(os.open(self._file, flags, _OWNER_ONLY), "ab") as file:
                    file.writelines(lines)
        except OSError as error:
            log.error("the audit log %s cannot be written: %s", self._file, error)
            for line in lines:
                log.error("audit: %s", line.decode().rstrip())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._file.parent.mkdir(mode=_FOLDER_OF_OWNER, parents=True, exist_ok=True)
        lock = os.open(self._file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _rotate_before(self, more: int) -> None:
        size = self._file.stat().st_size if self._file.exists() else 0
        if size == 0 or size + more <= self._max_bytes:
            return
        names = [self._file, *(self._rotated(number) for number in range(1, self._max_files))]
        names[-1].unlink(missing_ok=True)
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.rename(older)
        self._file.unlink(missing_ok=True)

    def _rotated(self, number: int) -> Path:
        return self._file.with_name(f"{self._file.name}.{number}")

    def _read(self, query: AuditQuery) -> list[AuditEntry]:
        found: list[AuditEntry] = []
        for file in (self._file, *(self._rotated(each) for each in range(1, self._max_files))):
            for line in reversed(_lines_of(file)):
                if len(found) >= query.limit:
                    return found
                entry = _entry_in(line)
                if entry is not None and query.wants(entry):
                    found.append(entry)
        return found


def _lines_of(file: Path) -> list[bytes]:
    try:
        return file.read_bytes().splitlines()
    except FileNotFoundError:
        return []


def _entry_in(line: bytes) -> AuditEntry | None:
    """None for a line that is incomplete because its writer died."""
    try:
        return decode_json(line, AuditEntry)
    except msgspec.DecodeError:
        return None


def _shortened(entry: AuditEntry) -> AuditEntry:
    texts = {name: getattr(entry, name) for name in ("caller", "address", "object", "reason")}
    long = {name: f"{text[:MAX_TEXT]}…" for name, text in texts.items() if len(text) > MAX_TEXT}
    return msgspec.structs.replace(entry, **long) if long else entry
