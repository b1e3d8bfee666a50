"""Sessions that expire, and writes whose answers are lost."""

import asyncio
import signal
import subprocess
import sys

import pytest

from integration.zookeeper.conftest import SESSION_SECONDS, OpenSession, wait_for_state
from integration.zookeeper.proxy import Cut, Proxy
from stoker.core.errors import ConnectionLost, CoordinatorUnavailable, SessionExpired
from stoker.ha.coordinator import ConnectionState, Create, Put, Watch
from stoker.processes.local.zookeeper import LocalZooKeeper

EXPIRED_WITHIN = 3 * SESSION_SECONDS


async def wait_until_fired(watch: Watch) -> None:
    async with asyncio.timeout(EXPIRED_WITHIN):
        await watch.wait()


@pytest.mark.parametrize("moment", list(Cut))
async def test_after_a_lost_answer_a_read_shows_whether_the_write_was_applied(
    proxy: Proxy, open_session: OpenSession, moment: Cut
):
    session = await open_session(at=proxy.address)
    await session.commit([Create("a", b"old")])
    proxy.cut_at_next_transaction(moment)
    with pytest.raises(ConnectionLost):
        await session.commit([Put("a", b"new", 0)])
    assert session.state is ConnectionState.SUSPENDED
    with pytest.raises(CoordinatorUnavailable):
        await session.read("a")
    proxy.heal()
    await wait_for_state(session, ConnectionState.CONNECTED)
    await session.sync()
    found = await session.read("a")
    assert found is not None
    applied = moment is Cut.AFTER_THE_SERVER_ANSWERED
    assert (found.value, found.version) == ((b"new", 1) if applied else (b"old", 0))


async def test_a_session_cut_off_for_too_long_expires_and_is_reported_as_lost(
    proxy: Proxy, open_session: OpenSession
):
    """Its ephemeral keys disappear before its process knows (LEAD-13)."""
    session, other = await open_session(at=proxy.address), await open_session()
    await session.commit([Create("mine", b"", ephemeral=True)])
    watch = Watch()
    await other.sync()
    await other.read("mine", watch=watch)
    proxy.cut()
    await wait_for_state(session, ConnectionState.SUSPENDED)
    await wait_until_fired(watch)
    assert await other.read("mine") is None
    assert session.state is ConnectionState.SUSPENDED
    proxy.heal()
    await wait_for_state(session, ConnectionState.LOST)
    for call in (session.read("mine"), session.commit([Create("late", b"")]), session.sync()):
        with pytest.raises(SessionExpired):
            await call
    await other.sync()
    assert await other.read("late") is None


async def test_a_brief_disconnection_keeps_the_session_and_fires_the_watches(
    proxy: Proxy, open_session: OpenSession
):
    session = await open_session(at=proxy.address)
    name = session.session
    await session.commit([Create("mine", b"", ephemeral=True)])
    watch, of_children = Watch(), Watch()
    await session.read("mine", watch=watch)
    await session.children("none", watch=of_children)
    proxy.cut()
    await wait_until_fired(watch)
    await wait_until_fired(of_children)
    proxy.heal()
    await wait_for_state(session, ConnectionState.CONNECTED)
    found = await session.read("mine")
    assert found is not None
    assert found.owner == session.session == name


async def test_an_auto_renewing_coordinator_begins_another_session(
    proxy: Proxy, open_session: OpenSession
):
    session, other = await open_session(at=proxy.address, auto_renewing=True), await open_session()
    name = session.session
    await session.commit([Create("a", b"")])
    watch = Watch()
    await session.read("a", watch=watch)
    states = [session.state]

    async def note_states() -> None:
        while True:
            states.append(await session.wait_for_state_other_than(states[-1]))

    noting = asyncio.create_task(note_states())
    proxy.cut()
    await wait_until_fired(watch)
    await asyncio.sleep(2 * SESSION_SECONDS)  # The servers end the session meanwhile.
    proxy.heal()
    await wait_for_state(session, ConnectionState.CONNECTED)
    noting.cancel()
    assert ConnectionState.LOST not in states
    assert session.session != name
    watch = Watch()
    assert await session.read("a", watch=watch) is not None
    await other.commit([Put("a", b"new")])
    await wait_until_fired(watch)
    await session.commit([Put("a", b"newer", 1)])


FREEZE_ME = """
import asyncio, sys, time
from datetime import timedelta
from stoker.core.errors import StokerError
from stoker.core.ids import Ids
from stoker.ha.coordinator import ConnectionState, Create, Check, Put
from stoker.ha.open import open_coordinator
from stoker.ha.zookeeper.options import ZooKeeperOptions

async def main():
    options = ZooKeeperOptions(session_timeout=timedelta(seconds=float(sys.argv[2])))
    session = await open_coordinator(sys.argv[1], ids=Ids(), options=options)
    await session.commit([Create("election", b"", ephemeral=True), Create("register", b"")])
    loop = asyncio.get_running_loop()
    seen = loop.time()
    print(session.session, flush=True)
    while loop.time() - seen < 1:
        seen = loop.time()
        await asyncio.sleep(0.01)
    # This process was frozen and does not know it yet; its event loop may notice it last.
    time.sleep(float(sys.argv[3]))
    print("sure" if loop.time() - session.last_contact < session.session_timeout else "unsure")
    for op in (Put("register", b"late"), Create("late", b"")):
        try:
            await session.commit([op])
            print("written")
        except StokerError:
            print("refused")
    state = session.state
    while state is not ConnectionState.LOST:
        state = await session.wait_for_state_other_than(state)
    print(state.value, flush=True)
    await session.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("slowness", [0.0, 1.5])
async def test_a_process_that_was_frozen_for_too_long_writes_nothing_when_it_wakes(
    ensemble: LocalZooKeeper, open_session: OpenSession, root: str, slowness: float
):
    """The age of the last contact shows at once that the session may be over."""
    other = await open_session()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", FREEZE_ME, ensemble.url(root), str(SESSION_SECONDS), str(slowness)),
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(40):
            name = (await child.stdout.readline()).decode().strip()
            await other.sync()
            watch = Watch()
            found = await other.read("election", watch=watch)
            assert found is not None
            assert found.owner == name
            child.send_signal(signal.SIGSTOP)
            await watch.wait()
            child.send_signal(signal.SIGCONT)
            said = (await child.stdout.read()).decode().splitlines()
            assert await child.wait() == 0
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert said == ["unsure", "refused", "refused", "lost"]
    await other.sync()
    assert await other.read("late") is None
    found = await other.read("register")
    assert found is not None
    assert found.value == b""
