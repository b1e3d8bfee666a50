"""The store of uploaded programs: crashes between two steps, sweeps, and names of files."""

import asyncio
import errno
import hashlib
import random
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import virtual, wait_until_quiet
from stoker.core.errors import CorruptContent, InvalidInput, StorageFull
from stoker.core.failpoints import REST_FAILPOINTS, armed
from stoker.core.ids import Ids
from stoker.rest.programs.store import (
    ProgramStore,
    StoredProgram,
    program_name,
    sweep,
    sweep_repeatedly,
)
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_storage

CONTENT = b"print()"
DAY = timedelta(days=1)
DAY_MS = 24 * 3600 * 1000
FAR = 10**14
"""A time at which every file is old."""


async def added(programs: ProgramStore, content: bytes, *, limit: int = 0) -> StoredProgram:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        return await programs.add("job.py", sha256, len(content), Path(file.name), limit=limit)


class Crash(BaseException):
    pass


def crash() -> None:
    raise Crash


class ProgramMaster:
    """The store of one master; all masters share the storage."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.store = ProgramStore(
            open_storage(str(folder / "storage")), Ids(random.Random(seed)), lambda: 1
        )
        self.file = folder / "job.py"
        self.file.write_bytes(CONTENT)

    async def add(self) -> StoredProgram:
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        return await self.store.add("job.py", sha256, len(CONTENT), self.file)

    async def can_fetch_all(self, target: Path) -> int:
        programs = await self.store.all()
        for program in programs:
            await self.store.fetch(program, target)
            assert target.read_bytes() == CONTENT
        return len(programs)


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("name", sorted(REST_FAILPOINTS))
async def test_a_crash_leaves_no_program_entry_without_its_content(
    tmp_path: Path, name: str, others: int
) -> None:
    first = ProgramMaster(tmp_path, 1)
    for _ in range(others):
        await first.add()
    await first.store.storage.write("programs/contents/of-nobody", b"")
    with armed(name, crash), pytest.raises(Crash):
        await first.store.delete((await first.add()).id)
        await sweep(replace(first.store, clock=lambda: FAR), DAY)
    second = ProgramMaster(tmp_path, 2)
    assert await second.can_fetch_all(tmp_path / "fetched.py") == others
    await sweep(replace(second.store, clock=lambda: FAR), DAY)
    again = await second.add()
    assert await second.can_fetch_all(tmp_path / "fetched.py") == others + 1
    await second.store.delete(again.id)
    assert await second.can_fetch_all(tmp_path / "fetched.py") == others


async def test_old_contents_without_a_program_are_removed() -> None:
    now = [1000]
    storage = MemoryStorage(lambda: now[0])
    programs = ProgramStore(storage, Ids(random.Random(1)), lambda: now[0])
    await storage.write("programs/contents/left-by-a-crash", b"1")
    kept = await added(programs, b"2")
    now[0] += DAY_MS + 1000
    await storage.write("programs/contents/on-its-way", b"3")
    assert await sweep(programs, DAY) == 1
    left = set(await storage.list("programs/contents"))
    assert left == {f"programs/contents/{kept.sha256}", "programs/contents/on-its-way"}
    assert await sweep(programs, DAY) == 0


async def test_nothing_is_removed_while_an_entry_cannot_be_read() -> None:
    now = [1000]
    storage = MemoryStorage(lambda: now[0])
    programs = ProgramStore(storage, Ids(), lambda: now[0])
    await storage.write("programs/contents/whose", b"1")
    await storage.write("programs/entries/broken.json", b"{")
    now[0] += 2 * DAY_MS
    with pytest.raises(CorruptContent, match=r"broken\.json"):
        await sweep(programs, DAY)
    assert await storage.exists("programs/contents/whose")


async def test_an_upload_keeps_content_that_a_sweep_is_about_to_remove() -> None:
    now = [1000]
    storage = MemoryStorage(lambda: now[0])
    programs = ProgramStore(storage, Ids(), lambda: now[0])
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    await storage.write(f"programs/contents/{sha256}", CONTENT)
    now[0] += 2 * DAY_MS

    class UploadDuringSweep(ProgramStore):
        """The content is uploaded after the sweep has read the entries."""

        async def entries(self) -> dict[str, StoredProgram | None]:
            found = await super().entries()
            await added(programs, CONTENT)
            return found

    assert await sweep(UploadDuringSweep(storage, Ids(), lambda: now[0]), DAY) == 0
    assert await storage.exists(f"programs/contents/{sha256}")


class InterruptedStorage(MemoryStorage):
    """A storage in which `step` begins between the last look at a content and its deletion."""

    def __init__(self, now: Callable[[], int], step: Callable[[], Coroutine[Any, Any, Any]]):
        super().__init__(now)
        self.step = step
        self.running: asyncio.Task[Any] | None = None

    async def delete(self, path: str) -> None:
        if path.startswith("programs/contents/") and self.running is None:
            self.running = asyncio.create_task(self.step())
            await wait_until_quiet()
        await super().delete(path)


@pytest.mark.parametrize("how", ["delete", "sweep"])
@virtual
async def test_an_upload_during_the_deletion_of_its_content_keeps_the_content(how: str) -> None:
    now = [1000]
    storage = InterruptedStorage(lambda: now[0], lambda: added(programs, CONTENT))
    programs = ProgramStore(storage, Ids(), lambda: now[0])
    first = await added(programs, CONTENT)
    if how == "delete":
        await programs.delete(first.id)
    else:
        await storage.delete(f"programs/entries/{first.id}.json")
        now[0] += 2 * DAY_MS
        assert await sweep(programs, DAY) == 1
    assert storage.running is not None
    again = await storage.running
    assert [program.id for program in await programs.all()] == [again.id]
    assert await storage.read(f"programs/contents/{again.sha256}") == CONTENT


async def test_only_the_leader_sweeps_and_continues_after_a_failure() -> None:
    class Enough(Exception):
        pass

    asked: list[list[str]] = []
    storage = MemoryStorage(lambda: 2 * DAY_MS)
    storage.files["programs/contents/old"] = b""
    storage.times["programs/contents/old"] = 1.0
    storage.fail_next("modified", errno.EIO)

    def leads() -> bool:
        asked.append(sorted(storage.files))
        if len(asked) == 4:
            raise Enough
        return len(asked) > 1

    programs = ProgramStore(storage, Ids(), lambda: 2 * DAY_MS)
    with pytest.raises(Enough):
        await sweep_repeatedly(programs, leads, interval=timedelta(0), max_age=DAY)
    old = ["programs/contents/old"]
    assert asked == [old, old, old, []], "a standby does not sweep; a failed sweep is repeated"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a.py", "a.py"),
        ("/etc/cron.d/a.sql", "a.sql"),
        ("C:\\jobs\\b.YML", "b.YML"),
        ("naïve job.whl", "naïve job.whl"),
        ("x;rm -rf.zip", "x_rm -rf.zip"),
    ],
)
def test_a_clients_file_name_loses_its_directories_and_special_characters(
    given: str, name: str
) -> None:
    assert program_name(given) == name


@pytest.mark.parametrize("given", ["", "a.jar", "..", ".py", "a.py\n"])
def test_a_file_of_an_unknown_type_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="a program is a file with one of"):
        program_name(given)


async def test_programs_beyond_the_limit_of_all_are_refused() -> None:
    storage = MemoryStorage()
    programs = ProgramStore(storage, Ids(random.Random(1)), lambda: 1)
    first = await added(programs, b"x" * 60, limit=100)
    with pytest.raises(StorageFull, match=r"60 of 100 bytes .*DELETE /jars/ID"):
        await added(programs, b"y" * 41, limit=100)
    # The same content is stored once.
    await added(programs, b"x" * 60, limit=100)
    assert await storage.list("programs/contents") == [f"programs/contents/{first.sha256}"]
    await added(programs, b"y" * 41)


async def test_of_programs_that_arrive_together_only_those_that_fit_are_stored() -> None:
    storage = MemoryStorage()
    programs = ProgramStore(storage, Ids(random.Random(1)), lambda: 1)
    done = await asyncio.gather(
        *(added(programs, bytes([number]) * 40, limit=100) for number in range(5)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, StorageFull) for each in done) == 3
    assert len(await storage.list("programs/contents")) == len(await programs.all()) == 2
