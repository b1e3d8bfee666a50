"""The directory of masters, on virtual time."""

import asyncio
from collections.abc import Sequence

from builders import virtual, wait_until_quiet
from stoker.aio.scope import TaskScope
from stoker.core.ids import ResourceId
from stoker.ha.coordinator import Op
from stoker.ha.masters import MasterDirectory
from stoker.ha.memory import MemoryCoordination

FIRST, SECOND = ResourceId("master-1"), ResourceId("master-2")


class CountingCoordination(MemoryCoordination):
    """Counts the transactions that change something."""

    writes = 0

    def apply(self, ops: Sequence[Op], session: str) -> list[int]:
        self.writes += 1
        return super().apply(ops, session)


@virtual
async def test_masters_are_known_while_they_run():
    coordination = MemoryCoordination()
    directory = MasterDirectory(coordination.session())
    async with TaskScope("processes") as scope:
        scope.spawn("follow", directory.run())
        scope.spawn("first", MasterDirectory(coordination.session()).announce(FIRST, "one"))
        second = scope.spawn(
            "second", MasterDirectory(coordination.session()).announce(SECOND, "two")
        )
        await wait_until_quiet()
        assert directory.known == {FIRST: "one", SECOND: "two"}
        second.cancel()
        await wait_until_quiet()
        assert directory.known == {FIRST: "one"}


@virtual
async def test_a_restarted_master_replaces_the_address_of_its_previous_process():
    coordination = MemoryCoordination()
    dead = coordination.session()
    directory = MasterDirectory(coordination.session())
    async with TaskScope("processes") as scope:
        scope.spawn("follow", directory.run())
        before = scope.spawn("before", MasterDirectory(dead).announce(FIRST, "old"))
        await wait_until_quiet()
        coordination.suspend(dead)
        before.cancel()
        await wait_until_quiet()
        assert directory.known == {FIRST: "old"}, "the old session has not ended"
        scope.spawn("after", MasterDirectory(coordination.session()).announce(FIRST, "new"))
        await wait_until_quiet()
        assert directory.known == {FIRST: "new"}
        coordination.expire(dead, tell=False)
        await wait_until_quiet()
        assert directory.known == {FIRST: "new"}


@virtual
async def test_two_masters_with_one_id_do_not_flood_the_coordinator():
    coordination = CountingCoordination()
    async with TaskScope("processes") as scope:
        for address in ("one", "two"):
            session = coordination.session()
            scope.spawn(address, MasterDirectory(session).announce(FIRST, address))
        await asyncio.sleep(10)
    assert coordination.writes < 40
    assert coordination.all_keys() == []
