"""The audit log: who changed what, and who was refused.

One line of JSON for each change that a caller asked for and for each refusal. The masters of one
machine that have the same working directory share the file, so it is locked while one of them
appends or rotates. Each entry names its master and has a number: the logs of several machines can
be merged, and a number that is missing shows that an entry was lost.

Invariant: the line of a change is in the file before its caller gets the answer. A log that cannot
be written stops nobody: the entry then goes to the log of the process, as an error.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from stoker.core.values import Millis, decode_json
from stoker.security.audit_entries import AuditEntry, merge_entries
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
    def __init__(self, file: Path, options: AuditOptions, master: str = "") -> None:
        """`master`: resource id of this master, which its entries carry."""
        self.file = file
        self._master = master
        self._sequence: int | None = None
        """Number of the last entry of this master; None until the file was looked into."""
        self._max_bytes = int(options.max_size)
        self._max_files = options.max_files
        self._pending: list[AuditEntry] = []
        self._writing = asyncio.Lock()

    async def append(self, entry: AuditEntry) -> None:
        """Returns when the entry is in the file. Entries that come together share one write."""
        self._pending.append(_shortened(entry))
        async with self._writing:
            # Another call may have written the entry; it has returned, since it had the lock.
            entries, self._pending = self._pending, []
            if entries:
                await asyncio.to_thread(self._write, entries)

    async def read(self, query: AuditQuery) -> list[AuditEntry]:
        """The newest entries that match, newest first."""
        return await asyncio.to_thread(self._read, query)

    def _write(self, entries: list[AuditEntry]) -> None:
        lines: list[bytes] = []
        try:
            with self._locked():
                lines = self._numbered_lines(entries)
                self._rotate_before(sum(map(len, lines)))
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
                with open(os.open(self.file, flags, _OWNER_ONLY), "ab") as file:
                    file.writelines(lines)
        except OSError as error:
            log.error("the audit log %s cannot be written: %s", self.file, error)
            for line in lines or map(msgspec.json.encode, entries):
                log.error("audit: %s", line.decode().rstrip())

    def _numbered_lines(self, entries: list[AuditEntry]) -> list[bytes]:
        if self._sequence is None:
            self._sequence = self._last_sequence()
        lines = []
        for entry in entries:
            self._sequence += 1
            numbered = msgspec.structs.replace(entry, master=self._master, sequence=self._sequence)
            lines.append(msgspec.json.encode(numbered) + b"\n")
        return lines

    def _last_sequence(self) -> int:
        """The number of this master's last entry under an earlier process with its id; 0 if none.

        All files may have to be searched, and few lines are decoded.
        """
        mark = b'"master":' + msgspec.json.encode(self._master)
        for file in self._files():
            for line in reversed(_lines_of(file)):
                entry = _entry_in(line) if mark in line else None
                if entry is not None and entry.master == self._master:
                    return entry.sequence
        return 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.file.parent.mkdir(mode=_FOLDER_OF_OWNER, parents=True, exist_ok=True)
        lock = os.open(self.file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _rotate_before(self, more: int) -> None:
        size = self.file.stat().st_size if self.file.exists() else 0
        if size == 0 or size + more <= self._max_bytes:
            return
        names = self._files()
        names[-1].unlink(missing_ok=True)
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.rename(older)
        self.file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        """The newest first."""
        return [self.file, *(self._rotated(number) for number in range(1, self._max_files))]

    def _rotated(self, number: int) -> Path:
        return self.file.with_name(f"{self.file.name}.{number}")

    def _read(self, query: AuditQuery) -> list[AuditEntry]:
        found: list[AuditEntry] = []
        for file in self._files():
            for line in reversed(_lines_of(file)):
                if len(found) >= query.limit:
                    return found
                entry = _entry_in(line)
                if entry is not None and query.wants(entry):
                    found.append(entry)
        return found


def read_audit_files(files: Iterable[Path], query: AuditQuery) -> list[AuditEntry]:
    """The newest entries that match, of the logs of any machines, newest first.

    Raises OSError for a file that cannot be read.
    """
    logs = [[_entry_in(line) for line in file.read_bytes().splitlines()] for file in files]
    merged = merge_entries([entry for entry in each if entry is not None] for each in logs)
    wanted = [entry for entry in reversed(merged) if query.wants(entry)]
    return wanted[: query.limit]


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
