"""The contract of Coordinator. A new driver needs one more branch in `open_session`."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from stoker.core.errors import (
    InvalidInput,
    InvalidOption,
    KeyExists,
    NoSuchKey,
    SessionExpired,
    StokerError,
    TooLarge,
    VersionMismatch,
)
from stoker.core.ids import Ids
from stoker.ha.coordinator import Check, ConnectionState, Coordinator, Create, Delete, Put, Watch
from stoker.ha.measured import MeasuredCoordinator
from stoker.ha.memory import MemoryCoordination
from stoker.ha.open import open_coordinator
from stoker.metrics.registry import unread_metrics

OpenSession = Callable[..., Awaitable[Coordinator]]
NOTICE_SECONDS = 2.0


@pytest.fixture(params=["memory", "measured", "embedded", "zookeeper"])
async def open_session(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[OpenSession]:
    opened: list[Coordinator] = []
    coordination = MemoryCoordination()
    ids = Ids(random.Random(1))
    urls = {"embedded": f"embedded://{tmp_path}/coordinator"}
    if request.param == "zookeeper":
        urls["zookeeper"] = request.getfixturevalue("zookeeper_url")

    async def open_another(*, auto_renewing: bool = False) -> Coordinator:
        if request.param == "memory":
            session: Coordinator = coordination.session(auto_renewing=auto_renewing)
        elif request.param == "measured":
            session = MeasuredCoordinator(
                coordination.session(auto_renewing=auto_renewing),
                unread_metrics().group(session="contender"),
            )
        else:
            session = await open_coordinator(
                urls[request.param], ids=ids, auto_renewing=auto_renewing
            )
        opened.append(session)
        return session

    yield open_another
    for session in opened:
        await session.close()


@pytest.fixture
async def one(open_session: OpenSession) -> Coordinator:
    return await open_session()


@pytest.fixture
async def other(open_session: OpenSession) -> Coordinator:
    return await open_session()


async def wait_until_fired(watch: Watch) -> None:
    async with asyncio.timeout(NOTICE_SECONDS):
        await watch.wait()


async def test_a_new_session_is_connected_and_has_an_id_of_its_own(
    one: Coordinator, other: Coordinator
):
    assert one.state is ConnectionState.CONNECTED
    assert one.session != other.session


async def test_one_session_reads_what_another_wrote(one: Coordinator, other: Coordinator):
    assert await one.commit([Create("jobs/a", b"1")]) == [0]
    await other.sync()
    found = await other.read("jobs/a")
    assert found is not None
    assert (found.value, found.version, found.owner) == (b"1", 0, None)


async def test_an_absent_key_reads_as_none_and_has_no_children(one: Coordinator):
    assert await one.read("absent") is None
    assert await one.children("absent") == []


async def test_versions_count_the_writes(one: Coordinator):
    await one.commit([Create("a", b"")])
    assert await one.commit([Put("a", b"1")]) == [1]
    assert await one.commit([Put("a", b"1", 1)]) == [2]
    found = await one.read("a")
    assert found is not None
    assert found.version == 2


async def test_versions_start_again_after_a_deletion(one: Coordinator):
    await one.commit([Create("a", b""), Put("a", b"1")])
    assert await one.commit([Delete("a", 1)]) == [-1]
    assert await one.commit([Create("a", b"")]) == [0]


async def test_a_key_is_created_once(one: Coordinator, other: Coordinator):
    results = await asyncio.gather(
        one.commit([Create("a", b"one")]),
        other.commit([Create("a", b"other")]),
        return_exceptions=True,
    )
    assert sorted(isinstance(result, KeyExists) for result in results) == [False, True]


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (Check("absent", 0), NoSuchKey),
        (Check("a", 0), VersionMismatch),
        (Create("a", b""), KeyExists),
        (Put("absent", b""), NoSuchKey),
        (Put("a", b"", 0), VersionMismatch),
        (Delete("absent"), NoSuchKey),
        (Delete("a", 0), VersionMismatch),
    ],
)
async def test_a_transaction_with_a_failing_operation_changes_nothing(
    one: Coordinator, op: Check | Create | Put | Delete, error: type[StokerError]
):
    await one.commit([Create("a", b"old")])
    with pytest.raises(error) as raised:
        await one.commit([Create("b", b""), Put("a", b"new", 0), Delete("b"), op, Create("c", b"")])
    if op.key == "absent":
        assert raised.value.facts["key"] == "absent"
    found = await one.read("a")
    assert found is not None
    assert (found.value, found.version) == (b"old", 0)
    assert await one.read("b") is None
    assert await one.read("c") is None


async def test_operations_of_a_transaction_see_the_effects_of_earlier_ones(one: Coordinator):
    await one.commit([Create("a", b"")])
    ops = [Delete("a", 0), Create("a", b"x"), Put("a", b"y", 0), Check("a", 1), Create("b", b"")]
    assert await one.commit(ops) == [-1, 0, 1, 1, 0]


async def test_a_check_guards_other_writes(one: Coordinator, other: Coordinator):
    """The epoch protocol relies on this."""
    await one.commit([Create("epoch", b"one")])
    await other.commit([Put("epoch", b"other", 0)])
    with pytest.raises(VersionMismatch) as raised:
        await one.commit([Check("epoch", 0), Create("late", b"")])
    assert raised.value.facts == {"key": "epoch", "expected": 0}
    assert await other.read("late") is None


async def test_children_are_the_next_parts_of_the_keys_below(one: Coordinator):
    for key in ("jobs/b", "jobs/a", "jobs/c/d/e", "jobs-of-others/x", "jobsa"):
        await one.commit([Create(key, b"")])
    assert await one.children("jobs") == ["a", "b", "c"]
    assert await one.children("jobs/c") == ["d"]
    assert await one.children("jobs/a") == []


async def test_no_key_can_be_created_below_a_key_with_a_value(one: Coordinator):
    await one.commit([Create("a", b""), Create("b/c", b"")])
    with pytest.raises(InvalidInput):
        await one.commit([Create("a/below", b"")])
    with pytest.raises(InvalidInput):
        await one.commit([Create("b", b"")])


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "a/../b", ".", "a\nb"])
async def test_a_malformed_key_is_refused(one: Coordinator, key: str):
    with pytest.raises(InvalidInput):
        await one.commit([Create(key, b"")])
    with pytest.raises(InvalidInput):
        await one.read(key)


async def test_values_up_to_half_a_mebibyte_are_kept_and_larger_ones_refused(one: Coordinator):
    await one.commit([Create("a", b"x" * 512 * 1024)])
    with pytest.raises(TooLarge, match="storage"):
        await one.commit([Put("a", b"x" * (512 * 1024 + 1))])
    found = await one.read("a")
    assert found is not None
    assert len(found.value) == 512 * 1024


async def test_a_watch_fires_at_each_kind_of_change(one: Coordinator, other: Coordinator):
    for op in (Create("a", b""), Put("a", b""), Delete("a")):
        watch = Watch()
        await one.read("a", watch=watch)
        await other.commit([op])
        await wait_until_fired(watch)


async def test_a_watch_fires_at_a_change_by_its_own_session(one: Coordinator):
    watch = Watch()
    await one.read("a", watch=watch)
    await one.commit([Create("a", b"")])
    await wait_until_fired(watch)


async def test_a_watch_notices_a_key_that_was_deleted_and_created_again(
    one: Coordinator, other: Coordinator
):
    await other.commit([Create("a", b"")])
    watch = Watch()
    await one.read("a", watch=watch)
    await other.commit([Delete("a"), Create("a", b"")])
    await wait_until_fired(watch)


async def test_a_watch_fires_only_for_its_key(one: Coordinator, other: Coordinator):
    watch, other_watch = Watch(), Watch()
    await one.read("a", watch=watch)
    await one.read("b", watch=other_watch)
    await other.commit([Create("b", b""), Create("a0", b""), Create("a/b", b"")])
    await wait_until_fired(other_watch)
    assert not watch.has_fired


async def test_a_watch_of_children_fires_when_they_come_and_go(
    one: Coordinator, other: Coordinator
):
    for op in (Create("jobs/a", b""), Create("jobs/b/c", b""), Delete("jobs/a")):
        watch = Watch()
        await one.children("jobs", watch=watch)
        await other.commit([op])
        await wait_until_fired(watch)


async def test_a_watch_of_children_does_not_fire_when_a_value_changes(
    one: Coordinator, other: Coordinator
):
    await other.commit([Create("jobs/a", b"")])
    of_children, of_value = Watch(), Watch()
    await one.children("jobs", watch=of_children)
    await one.read("jobs/a", watch=of_value)
    await other.commit([Put("jobs/a", b"new")])
    await wait_until_fired(of_value)
    assert not of_children.has_fired


async def test_an_ephemeral_key_names_its_session(one: Coordinator, other: Coordinator):
    await one.commit([Create("leader/a", b"", ephemeral=True)])
    await other.sync()
    found = await other.read("leader/a")
    assert found is not None
    assert found.owner == one.session


async def test_closing_removes_the_ephemeral_keys_and_no_others(
    one: Coordinator, other: Coordinator
):
    """Watches of other sessions notice the removal (STORE-12, LEAD-13)."""
    await one.commit([Create("mine", b"", ephemeral=True), Create("kept", b"")])
    await other.commit([Create("yours", b"", ephemeral=True)])
    watch, of_children = Watch(), Watch()
    await other.read("mine", watch=watch)
    await one.commit([Create("group/mine", b"", ephemeral=True)])
    assert await other.children("group", watch=of_children) == ["mine"]
    await one.close()
    await wait_until_fired(watch)
    await wait_until_fired(of_children)
    assert await other.read("mine") is None
    assert await other.children("group") == []
    assert await other.read("kept") is not None
    assert await other.read("yours") is not None


async def test_an_ephemeral_key_of_another_session_can_be_replaced(
    one: Coordinator, other: Coordinator
):
    """It then outlives the session that had written it first (X-LEAD-05)."""
    await one.commit([Create("leader/a", b"one", ephemeral=True)])
    await other.commit([Delete("leader/a"), Create("leader/a", b"other", ephemeral=True)])
    await one.close()
    found = await other.read("leader/a")
    assert found is not None
    assert (found.value, found.owner) == (b"other", other.session)


async def test_a_closed_session_is_lost_and_refuses_further_calls(one: Coordinator):
    waiting = asyncio.ensure_future(one.wait_for_state_other_than(ConnectionState.CONNECTED))
    watch = Watch()
    await one.read("a", watch=watch)
    await one.close()
    await one.close()
    assert await waiting is ConnectionState.LOST
    assert watch.has_fired
    for call in (one.read("a"), one.children("a"), one.commit([]), one.sync()):
        with pytest.raises(SessionExpired):
            await call


async def test_an_abandoned_watch_does_no_harm(one: Coordinator, other: Coordinator):
    await one.read("a", watch=Watch())
    await other.commit([Create("a", b"")])
    watch = Watch()
    await one.read("b", watch=watch)
    await other.commit([Create("b", b"")])
    await wait_until_fired(watch)


async def test_many_writers_lose_no_update(open_session: OpenSession):
    sessions = [await open_session() for _ in range(3)]
    await sessions[0].commit([Create("count", b"0")])

    async def add(session: Coordinator, times: int) -> None:
        while times:
            await session.sync()
            found = await session.read("count")
            assert found is not None
            try:
                await session.commit([Put("count", b"%d" % (int(found.value) + 1), found.version)])
            except VersionMismatch:
                continue
            times -= 1

    await asyncio.gather(*(add(session, 5) for session in sessions))
    found = await sessions[0].read("count")
    assert found is not None
    assert (found.value, found.version) == (b"15", 15)


async def test_contact_is_recent_while_connected(one: Coordinator):
    loop = asyncio.get_running_loop()
    assert one.session_timeout > 0
    asked = loop.time()
    await one.sync()
    assert asked <= one.last_contact <= loop.time()
    await one.close()
    assert asked <= one.last_contact <= loop.time()


async def test_an_auto_renewing_coordinator_does_everything_but_own_ephemeral_keys(
    open_session: OpenSession,
):
    auto_renewing = await open_session(auto_renewing=True)
    assert await auto_renewing.commit([Create("a", b"1")]) == [0]
    with pytest.raises(InvalidInput, match="session"):
        await auto_renewing.commit([Create("mine", b"", ephemeral=True)])
    assert await auto_renewing.read("mine") is None
    await auto_renewing.close()
    assert auto_renewing.state is ConnectionState.LOST
    with pytest.raises(SessionExpired):
        await auto_renewing.read("a")


@pytest.mark.parametrize("url", ["nosuch://host", "directory", "embedded://relative", ""])
async def test_a_bad_url_is_refused_with_an_explanation(url: str):
    with pytest.raises(InvalidOption, match="embedded://"):
        await open_coordinator(url, ids=Ids())


HOLD_A_KEY = """
import asyncio, sys
from stoker.core.ids import Ids
from stoker.ha.coordinator import Create
from stoker.ha.open import open_coordinator

async def main():
    session = await open_coordinator(sys.argv[1], ids=Ids())
    await session.commit([Create("election", b"child", ephemeral=True), Create("kept", b"")])
    print(session.session, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_end_of_a_killed_process_is_noticed_at_once(tmp_path: Path):
    # LEAD-13 with real processes: the kernel drops the lock with the process.
    url = f"embedded://{tmp_path}/coordinator"
    session = await open_coordinator(url, ids=Ids())
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD_A_KEY, url, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        name = (await child.stdout.readline()).decode().strip()
        watch = Watch()
        found = await session.read("election", watch=watch)
        assert found is not None
        assert found.owner == name
        loop = asyncio.get_running_loop()
        child.send_signal(signal.SIGKILL)
        killed = loop.time()
        await wait_until_fired(watch)
        assert loop.time() - killed < 1.0  # 0.1 s on a quiet machine
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
    assert await session.read("election") is None
    assert await session.read("kept") is not None
    await session.commit([Create("election", b"mine", ephemeral=True)])
    await session.close()
    assert not list((tmp_path / "coordinator" / "sessions").iterdir())
