"""Changes of tokens and configuration become events, also those between two leaders."""

import asyncio
import random

import pytest

from stoker.core.errors import InvalidOption
from stoker.core.failpoints import armed
from stoker.core.ids import Ids
from stoker.events.intake import EventIntake, EventRecorder
from stoker.events.settings import CHECK_SECONDS, Settings, SettingsWatch, differences
from stoker.ha.memory import MemoryCoordination
from stoker.testing.leadership import seize_leadership
from stoker.testing.virtual_time import run_virtual


def test_differences_name_what_came_went_and_changed() -> None:
    assert differences({"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4", "d": "5"}) == {
        "a": "removed: 1",
        "c": "changed: 3 → 4",
        "d": "added: 5",
    }


class Crash(Exception):
    pass


class Cluster:
    def __init__(self) -> None:
        self.coordination = MemoryCoordination()
        self.settings = Settings(tokens={"1": "ana (submit)"}, configuration={"a": "1"})
        self.unreadable = False
        self.ids = Ids(random.Random(1))

    def read(self) -> Settings:
        if self.unreadable:
            raise InvalidOption("the tokens cannot be read")
        return self.settings

    async def lead(self, seconds: float = CHECK_SECONDS * 3) -> list[str]:
        """The kinds of the events that a leader records in this time."""
        leadership = await seize_leadership(self.coordination.session(), ids=self.ids)
        intake = EventIntake()
        epoch = leadership.token.epoch
        record = EventRecorder(intake, epoch, lambda: 0)
        watch = asyncio.create_task(SettingsWatch(leadership, record, self.read).run())
        await asyncio.sleep(seconds)
        if watch.done():
            watch.result()
        watch.cancel()
        return [event.kind for event in intake.take(epoch)]


def test_the_first_leader_and_an_unchanged_one_have_nothing_to_tell() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        assert await cluster.lead() == []
        assert await cluster.lead() == []

    run_virtual(scenario)


def test_a_change_is_told_once_by_whoever_leads() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        await cluster.lead()
        leading = asyncio.create_task(cluster.lead())
        await asyncio.sleep(1)
        cluster.settings = Settings(tokens={}, configuration={"a": "1"})
        assert await leading == ["tokens-changed"]
        cluster.settings = Settings(tokens={}, configuration={"a": "2"})
        assert await cluster.lead() == ["configuration-changed"]
        assert await cluster.lead() == []

    run_virtual(scenario)


def test_tokens_that_cannot_be_read_are_no_change() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        await cluster.lead()
        cluster.unreadable = True
        assert await cluster.lead() == []
        cluster.unreadable = False
        assert await cluster.lead() == []

    run_virtual(scenario)


@pytest.mark.parametrize(
    ("name", "told_again"), [("events.before-settings", 1), ("events.after-settings", 0)]
)
def test_a_leader_that_dies_before_its_record_leaves_the_change_to_the_next(
    name: str, told_again: int
) -> None:
    async def scenario() -> None:
        cluster = Cluster()
        await cluster.lead()
        cluster.settings = Settings(tokens={}, configuration={"a": "1"})

        def crash() -> None:
            raise Crash

        with armed(name, crash), pytest.raises(Crash):
            await cluster.lead()
        assert await cluster.lead() == ["tokens-changed"] * told_again

    run_virtual(scenario)
