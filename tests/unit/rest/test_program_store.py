"""Uploaded programs when the master dies between two steps."""

import hashlib
import random
from pathlib import Path

import pytest

from stoker.core.failpoints import REST_FAILPOINTS, armed
from stoker.core.ids import Ids
from stoker.rest.program_store import ProgramStore, StoredProgram
from stoker.storage.open import open_storage

CONTENT = b"print()"


class Crash(BaseException):
    pass


def crash() -> None:
    raise Crash


class Life:
    """Of a master: each has the same storage."""

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
async def test_a_death_over_a_program_leaves_no_entry_that_points_to_nothing(
    tmp_path: Path, name: str, others: int
) -> None:
    first = Life(tmp_path, 1)
    for _ in range(others):
        await first.add()
    with armed(name, crash), pytest.raises(Crash):
        await first.store.delete((await first.add()).id)
    second = Life(tmp_path, 2)
    assert await second.can_fetch_all(tmp_path / "fetched.py") == others
    again = await second.add()
    assert await second.can_fetch_all(tmp_path / "fetched.py") == others + 1
    await second.store.delete(again.id)
    assert await second.can_fetch_all(tmp_path / "fetched.py") == others
