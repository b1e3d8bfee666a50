"""Two sessions of the embedded coordinator do, step by step, what two in memory do."""

import asyncio
import random
import tempfile
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from stoker.core.errors import StokerError
from stoker.core.ids import Ids
from stoker.ha.coordinator import Check, Coordinator, Create, Delete, Put, Versioned, Watch
from stoker.ha.memory import MemoryCoordination
from stoker.ha.open import open_coordinator

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
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory(prefix="stoker-model-")
        self.ids = Ids(random.Random(1))
        self.coordination = MemoryCoordination()
        self.memory: list[Coordinator] = [self.coordination.session() for _ in range(2)]
        self.embedded: list[Coordinator] = [self.run(self.open_embedded()) for _ in range(2)]
        self.watches: list[tuple[Watch, Watch]] = []

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    async def open_embedded(self) -> Coordinator:
        return await open_coordinator(f"embedded://{self.directory.name}/c", ids=self.ids)

    def plain(self, session: int, found: Versioned | None) -> object:
        """What was read, with owners told by their place in the lists."""
        if found is None:
            return None
        owners = {
            named.session: number
            for driver in (self.memory, self.embedded)
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
        assert self.outcome(self.embedded[session].commit(ops)) == expected
        self.run(self.watches_agree())

    @rule(session=sessions, key=keys)
    def read(self, session: int, key: str) -> None:
        expected = self.plain(session, self.run(self.memory[session].read(key)))
        assert self.plain(session, self.run(self.embedded[session].read(key))) == expected

    @rule(session=sessions, key=keys)
    def children(self, session: int, key: str) -> None:
        expected = self.run(self.memory[session].children(key))
        assert self.run(self.embedded[session].children(key)) == expected

    @rule(session=sessions, key=keys, of_children=st.booleans())
    def watch(self, session: int, key: str, of_children: bool) -> None:
        pair = (Watch(), Watch())
        for driver, watch in zip((self.memory, self.embedded), pair, strict=True):
            look = driver[session].children if of_children else driver[session].read
            self.run(look(key, watch=watch))
        self.watches.append(pair)

    @rule(session=sessions)
    def replace_session(self, session: int) -> None:
        self.run(self.memory[session].close())
        self.run(self.embedded[session].close())
        self.memory[session] = self.coordination.session()
        self.embedded[session] = self.run(self.open_embedded())
        self.run(self.watches_agree())

    async def watches_agree(self) -> None:
        for expected, watch in self.watches:
            if expected.fired:
                async with asyncio.timeout(2):
                    await watch.wait()
            else:
                assert not watch.fired
        self.watches = [pair for pair in self.watches if not pair[0].fired]

    def teardown(self) -> None:
        for session in (*self.memory, *self.embedded):
            self.run(session.close())
        self.runner.close()
        self.directory.cleanup()


TestTwoDrivers = TwoDrivers.TestCase
TestTwoDrivers.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
