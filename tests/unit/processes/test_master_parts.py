"""The leading parts of a master, run together."""

import asyncio
import random
from pathlib import Path

import pytest

from stoker.blob.options import BlobOptions
from stoker.blob.server import BlobServer
from stoker.blob.transfer import inline
from stoker.core.ids import Ids, ResourceId
from stoker.ha.leadership import Leadership
from stoker.ha.memory import MemoryCoordination
from stoker.processes import master_parts
from stoker.processes.master_parts import MasterParts, MasterServices
from stoker.rpc.memory import MemoryNetwork
from stoker.storage.memory import MemoryStorage
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock


def new_parts(folder: Path) -> MasterParts:
    storage = MemoryStorage()
    return MasterParts(
        MasterServices(
            resource_id=ResourceId("master"),
            rpc=MemoryNetwork().service("master"),
            coordinator=MemoryCoordination(session_timeout=4).session(),
            storage=storage,
            blobs=BlobServer(storage, folder, BlobOptions(), off_loop=inline),
            ids=Ids(random.Random(1)),
            wall_clock=virtual_wall_clock(),
        )
    )


@pytest.mark.parametrize("part", ["lead_resource_manager", "lead_dispatcher"])
def test_a_part_that_ends_unexpectedly_ends_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A master without one of its parts must not keep leading (ENTRY-09, RM-04, RUN-13)."""

    async def lead_for_a_while(_leadership: Leadership, services: object) -> None:
        await asyncio.sleep(5)

    monkeypatch.setattr(master_parts, part, lead_for_a_while)

    async def scenario() -> None:
        async with asyncio.timeout(60):
            with pytest.raises(RuntimeError, match="has ended although it still leads"):
                await new_parts(tmp_path).run()

    run_virtual(scenario)


@pytest.mark.parametrize("part", ["lead_resource_manager", "lead_dispatcher"])
def test_a_part_that_ends_during_the_shutdown_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The order in which parts end does not matter (ENTRY-09, RUN-13)."""
    ended: list[str] = []

    async def lead_until_stopped(leadership: Leadership, services: object) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(leadership.component)

    monkeypatch.setattr(master_parts, part, lead_until_stopped)

    async def scenario() -> None:
        running = asyncio.create_task(new_parts(tmp_path).run())
        await asyncio.sleep(5)
        running.cancel()
        [outcome] = await asyncio.gather(running, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError)
        assert len(ended) == 1

    run_virtual(scenario)
