"""Two sessions of a real coordinator behave, step by step, like two sessions in memory."""

import asyncio
import itertools
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from stoker.core.errors import StokerError
from stoker.core.ids import Ids
from stoker.ha.coordinator import Check, Coordinator, Create, Delete, Put, Versioned, Watch
from stoker.ha.memory import MemoryCoordination
from stoker.ha.open import open_coordinator
from stoker.processes.local.zookeeper import LocalZooKeeper

T = TypeVar("T")

keys = st.sampled_from(["a", "b", "c/d", "c/e", "c"])
values = st.binary(max_size=3)
versions = st.none() | st.integers(0, 3)
ops = st.one_of(
    st.builds(Check, keys, st.integers(0, 3)),
    st.builds(Create, keys, values, ephemeral=st.booleans()),
    st.builds(Put, keys, values, versions),
    st.builds(Delete, keys, versions),
)
sessions = st.integers(0, 1)


class TwoDrivers(RuleBasedStateMachine):
    """Runs the same operations on the driver in memory and on the driver at the URL.

    The ZooKeeper driver may also fire a watch without a change.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.fires_only_for_changes = url.startswith("embedded")
        self.runner = asyncio.Runner()
        self.ids = Ids(random.Random(1))
        self.coordination = MemoryCoordination()
        self.memory: list[Coordinator] = [self.coordination.session() for _ in range(2)]
        self.real: list[Coordinator] = [self.run(self.open_real()) for _ in range(2)]
        self.watches: list[tuple[Watch, Watch]] = []

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    async def open_real(self) -> Coordinator:
        return await open_coordinator(self.url, ids=self.ids)

    async def synced(self, session: int) -> Coordinator:
        await self.real[session].sync()
        return self.real[session]

    def comparable(self, session: int, found: Versioned | None) -> object:
        """The result of a read, with the position of the owning session instead of its id."""
        if found is None:
            return None
        owners = {
            named.session: number
            for driver in (self.memory, self.real)
            for number, named in enumerate(driver)
        }
        return found.value, found.version, owners.get(found.owner or "")

    def outcome(self, coroutine: Coroutine[Any, Any, T]) -> T | tuple[type[StokerError], str]:
        try:
            return self.run(coroutine)
        except StokerError as error:
            return type(error), str(error)

    @rule(session=sessions, ops=st.lists(ops, min_size=1, max_size=4))
    def commit(self, session: int, ops: list[Check | Create | Put | Delete]) -> None:
        expected = self.outcome(self.memory[session].commit(ops))
        assert self.outcome(self.real[session].commit(ops)) == expected
        self.run(self.watches_agree())

    @rule(session=sessions, key=keys)
    def read(self, session: int, key: str) -> None:
        expected = self.comparable(session, self.run(self.memory[session].read(key)))
        real = self.run(self.synced(session))
        assert self.comparable(session, self.run(real.read(key))) == expected

    @rule(session=sessions, key=keys)
    def children(self, session: int, key: str) -> None:
        expected = self.run(self.memory[session].children(key))
        assert self.run(self.real[session].children(key)) == expected

    @rule(session=sessions, key=keys, of_children=st.booleans())
    def watch(self, session: int, key: str, of_children: bool) -> None:
        self.run(self.synced(session))
        pair = (Watch(), Watch())
        for driver, watch in zip((self.memory, self.real), pair, strict=True):
            read = driver[session].children if of_children else driver[session].read
            self.run(read(key, watch=watch))
        self.watches.append(pair)

    @rule(session=sessions)
    def replace_session(self, session: int) -> None:
        self.run(self.memory[session].close())
        self.run(self.real[session].close())
        self.memory[session] = self.coordination.session()
        self.real[session] = self.run(self.open_real())
        self.run(self.watches_agree())

    async def watches_agree(self) -> None:
        for expected, watch in self.watches:
            if expected.has_fired:
                async with asyncio.timeout(2):
                    await watch.wait()
            elif self.fires_only_for_changes:
                assert not watch.has_fired
        self.watches = [pair for pair in self.watches if not pair[0].has_fired]

    def teardown(self) -> None:
        for session in (*self.memory, *self.real):
            self.run(session.close())
        self.runner.close()


def test_embedded_sessions_behave_like_sessions_in_memory(tmp_path: Path):
    numbers = itertools.count()
    run_state_machine_as_test(
        lambda: TwoDrivers(f"embedded://{tmp_path}/{next(numbers)}"),
        settings=settings(max_examples=25, stateful_step_count=20, deadline=None),
    )


def test_zookeeper_sessions_behave_like_sessions_in_memory(zookeeper: LocalZooKeeper):
    numbers = itertools.count()
    run_state_machine_as_test(
        lambda: TwoDrivers(zookeeper.url(f"model/{next(numbers)}")),
        settings=settings(max_examples=25, stateful_step_count=20, deadline=None),
    )
