"""Store of uploaded programs, in the shared storage so that every master finds them.

A program is an entry, named by its id, that points to a content, named by its hash; several entries
may share one content. Invariant: an entry never points to a missing content. So the content is
written before the entry and deleted after it, and a sweep removes contents that an interrupted
upload or deletion has left without an entry. It removes only old ones, since an upload that is
still running has not written its entry yet.

A lock keeps "the content is there" and "nobody needs the content" true until the step that relies
on it. It holds within one process, the leading master, to which all requests are forwarded. A
request that a master still serves after it has lost its leadership may overlap with one of the next
leader: an upload and a deletion of the same content at that moment can leave an entry without
content, whose use fails until the program is uploaded again.
"""

import asyncio
import logging
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec

from stoker.aio.clock import WallClock, system_wall_clock
from stoker.core.errors import CorruptContent, InvalidInput, NotFound, StokerError, StorageFull
from stoker.core.failpoints import failpoint
from stoker.core.ids import Ids
from stoker.core.values import Millis, Value, decode_json
from stoker.storage.contract import Storage
from stoker.storage.room import check_total_size

SUFFIXES = (".py", ".zip", ".whl", ".sql", ".yml", ".yaml")
_ENTRIES = "programs/entries"
CONTENTS = "programs/contents"
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}_[\w.+ -]{1,200}")
_UNSAFE = re.compile(r"[^\w.+ -]")


class StoredProgram(Value):
    id: str
    name: str
    sha256: str
    size: int
    uploaded: Millis
    version: int = 1


def program_name(given: str) -> str:
    """The client's file name without directories; InvalidInput for a type that is not a program."""
    bare = PureWindowsPath(PurePosixPath(given).name).name
    name = _UNSAFE.sub("_", bare).strip(" .")[-200:]
    if not name.lower().endswith(SUFFIXES) or name.startswith("."):
        raise InvalidInput(
            f"a program is a file with one of the suffixes {', '.join(SUFFIXES)}, found {given!r}"
        )
    return name


@dataclass(frozen=True)
class ProgramStore:
    storage: Storage
    ids: Ids
    clock: WallClock = system_wall_clock
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while an entry is written, and while a content without an entry is deleted."""

    async def add(
        self, name: str, sha256: str, size: int, file: Path, *, limit: int = 0
    ) -> StoredProgram:
        """Add a program; it is durable when this returns.

        Raises StorageFull if all programs together would have more than `limit` bytes, unless that
        is 0.
        """
        await self._check_limit(sha256, size, limit)
        number = uuid.UUID(int=self.ids.random.getrandbits(128), version=4)
        program = StoredProgram(
            id=f"{number}_{name}", name=name, sha256=sha256, size=size, uploaded=self.clock()
        )
        await self.storage.upload(file, f"{CONTENTS}/{sha256}")
        failpoint("programs.before-entry")
        async with self.lock:
            try:
                await self._check_limit(sha256, size, limit)
            except StorageFull:
                # Another upload was faster.
                await self._delete_unless_needed(sha256)
                raise
            await self.storage.create(f"{_ENTRIES}/{program.id}.json", msgspec.json.encode(program))
            if not await self.storage.exists(f"{CONTENTS}/{sha256}"):
                # The last other program with this content was deleted meanwhile.
                await self.storage.upload(file, f"{CONTENTS}/{sha256}")
        return program

    async def all(self) -> list[StoredProgram]:
        """All programs, newest first; unreadable entries are left out."""
        programs = [each for each in (await self.entries()).values() if each is not None]
        return sorted(programs, key=lambda program: (-program.uploaded, program.id))

    async def entries(self) -> dict[str, StoredProgram | None]:
        """All entries by path; None for one that cannot be read."""
        paths = await self.storage.list(_ENTRIES)
        found = await asyncio.gather(*(self._read(path) for path in paths))
        return dict(zip(paths, found, strict=True))

    async def _read(self, path: str) -> StoredProgram | None:
        try:
            return decode_json(await self.storage.read(path), StoredProgram)
        except (NotFound, msgspec.DecodeError):
            return None

    async def get(self, program_id: str) -> StoredProgram:
        program = await self._read(_entry(program_id))
        if program is None:
            raise NotFound(f"no program {program_id}; GET /jars lists the ids")
        return program

    async def fetch(self, program: StoredProgram, target: Path) -> None:
        await self.storage.download(f"{CONTENTS}/{program.sha256}", target)

    async def delete(self, program_id: str) -> None:
        program = await self.get(program_id)
        await self.storage.delete(_entry(program_id))
        failpoint("programs.after-removing-entry")
        async with self.lock:
            await self._delete_unless_needed(program.sha256)

    async def _delete_unless_needed(self, sha256: str) -> None:
        if not any(other.sha256 == sha256 for other in await self.all()):
            await self.storage.delete(f"{CONTENTS}/{sha256}")

    async def _check_limit(self, sha256: str, size: int, limit: int) -> None:
        if not limit:
            return
        sizes = {each.sha256: each.size for each in await self.all()}
        if sha256 not in sizes:
            check_total_size(
                sum(sizes.values()),
                size,
                limit=limit,
                option="web.upload.size-limit",
                remedy="delete programs that nobody needs (DELETE /jars/ID), or raise the limit",
            )


def _entry(program_id: str) -> str:
    if _ID.fullmatch(program_id) is None or ".." in program_id:
        raise NotFound(f"no program {program_id!r}; GET /jars lists the ids")
    return f"{_ENTRIES}/{program_id}.json"


log = logging.getLogger(__name__)


async def sweep_repeatedly(
    programs: ProgramStore, leads: Callable[[], bool], *, interval: timedelta, max_age: timedelta
) -> None:
    """Sweep in an interval while this master leads. Two sweeps at the same time are harmless."""
    while True:
        await asyncio.sleep(interval.total_seconds())
        if not leads():
            continue
        try:
            removed = await sweep(programs, max_age)
        except StokerError as error:
            log.warning("uploaded programs could not be swept this time: %s", error)
            continue
        if removed:
            log.info("removed %d contents of programs without an entry", removed)


async def sweep(programs: ProgramStore, max_age: timedelta) -> int:
    """Remove old contents without an entry and return how many.

    Raise CorruptContent if an entry cannot be read: it might point to any of the contents.
    """
    # List contents before entries, so that an entry written in between is seen.
    contents = await programs.storage.modified(CONTENTS)
    oldest = programs.clock() / 1000 - max_age.total_seconds()
    old = {path: at for path, at in contents.items() if at < oldest}
    if not old:
        return 0
    entries = await programs.entries()
    damaged = [path for path, program in entries.items() if program is None]
    if damaged:
        raise CorruptContent(f"{damaged[0]} cannot be read; delete the file if nobody needs it")
    wanted = {f"{CONTENTS}/{program.sha256}" for program in entries.values() if program}
    removed = 0
    for path in sorted(old.keys() - wanted):
        async with programs.lock:
            # The same content may have been uploaded again since the entries were read.
            if (await programs.storage.modified(CONTENTS)).get(path) == old[path]:
                failpoint("programs.before-sweeping")
                await programs.storage.delete(path)
                removed += 1
    return removed
