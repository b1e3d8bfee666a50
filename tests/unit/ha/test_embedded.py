"""The embedded coordinator: its behaviour beyond the contract of all coordinators."""

import asyncio
import errno
import fcntl
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoker.core.errors import CoordinatorUnavailable, SessionExpired
from stoker.core.ids import Ids
from stoker.ha.coordinator import Check, ConnectionState, Create, Delete, Put, Watch
from stoker.ha.embedded.coordinator import EmbeddedCoordinator
from stoker.ha.embedded.database import Database
from stoker.ha.embedded.session_files import SessionFiles
from stoker.ha.open import open_coordinator


async def test_many_processes_may_open_the_coordinator_at_the_same_time(tmp_path: Path):
    sessions = await asyncio.gather(
        *(EmbeddedCoordinator.open(tmp_path / "new", session=f"s{number}") for number in range(8))
    )
    await asyncio.gather(
        *(session.commit([Create(f"a/{session.session}", b"")]) for session in sessions)
    )
    assert len(await sessions[0].children("a")) == 8
    await asyncio.gather(*(session.close() for session in sessions))
    assert not any(thread.name.startswith("coordinator") for thread in threading.enumerate())


def test_processes_that_create_the_file_at_the_same_moment_wait_for_each_other(tmp_path: Path):
    """SQLite's own patience does not cover the switch of the journal's mode."""
    openers = 6
    together = threading.Barrier(openers)

    def opens(path: Path) -> None:
        together.wait()
        Database(path).close()

    with ThreadPoolExecutor(openers) as pool:
        for number in range(20):
            path = tmp_path / f"{number}.sqlite"
            for opened in [pool.submit(opens, path) for _ in range(openers)]:
                opened.result()


async def test_waiting_transactions_share_one_write_and_succeed_or_fail_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    await session.commit([Create("taken", b"")])
    writes = []
    commit = session._session.commit

    def counted(transactions):
        writes.append(len(transactions))
        return commit(transactions)

    monkeypatch.setattr(session._commits, "_commit_all", counted)
    # The transactions queue up while the writer thread is busy.
    running = threading.Event()
    busy = asyncio.ensure_future(session._thread.run(running.wait))
    many = [
        asyncio.ensure_future(session.commit([Create(f"a/{number}", b""), Create(key, b"")]))
        for number, key in enumerate(["b", "taken", "c", "b"])
    ]
    await asyncio.sleep(0)
    running.set()
    await busy
    outcomes = await asyncio.gather(*many, return_exceptions=True)
    assert writes == [4]
    assert [type(each).__name__ for each in outcomes] == ["list", "KeyExists", "list", "KeyExists"]
    assert await session.children("a") == ["0", "2"], "a refused transaction leaves nothing"
    await session.close()


async def test_small_reads_do_not_wait_for_a_busy_writer_thread(tmp_path: Path):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    await session.commit([Create("a/b", b"1"), Create("a/c", b"")])
    running = threading.Event()
    busy = asyncio.ensure_future(session._thread.run(running.wait))
    async with asyncio.timeout(10):
        found = await session.read("a/b")
        assert found is not None
        assert found.value == b"1"
        assert await session.children("a") == ["b", "c"]
    running.set()
    await busy
    await session.close()


async def test_a_session_reads_its_own_write_although_the_writer_was_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    begun, go_on = threading.Event(), threading.Event()
    commit = session._session.commit

    def held_up(transactions):
        begun.set()
        go_on.wait(60)
        return commit(transactions)

    monkeypatch.setattr(session._commits, "_commit_all", held_up)
    writing = asyncio.ensure_future(session.commit([Create("a/b", b"1")]))
    await asyncio.to_thread(begun.wait, 60)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    reading = [asyncio.ensure_future(session.read("a/b")), asyncio.ensure_future(_all(session))]
    await asyncio.wait(reading, timeout=0.05)
    assert not any(each.done() for each in reading), (
        "reads wait for a write that may still be committed"
    )
    go_on.set()
    value, names = await asyncio.gather(*reading)
    assert value.value == b"1"
    assert names == ["b"]
    await session.close()


async def _all(session: EmbeddedCoordinator) -> list[str]:
    return await session.children("a")


@pytest.mark.parametrize("count", [64, 65, 200])
async def test_all_children_are_listed_whatever_their_number(tmp_path: Path, count: int):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    names = [f"{number:03}" for number in range(count)]
    await session.commit([Create(f"a/{name}", b"") for name in names])
    assert await session.children("a") == names
    await session.close()


async def test_reads_that_may_block_run_in_the_writer_thread(tmp_path: Path):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    await session.commit([Create("a/b", b"1")])
    session._session.inline.close()
    found = await session.read("a/b")
    assert found is not None
    assert found.value == b"1"
    assert await session.children("a") == ["b"]
    watch = Watch()
    await session.read("a/b", watch=watch)
    async with asyncio.timeout(10):
        await session.commit([Put("a/b", b"2")])
        await watch.wait()
    await session.close()


async def test_writes_of_the_session_itself_do_not_hide_writes_of_other_processes(tmp_path: Path):
    """Each poll must distinguish the two: a session knows only the keys of its own writes."""
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    other = await EmbeddedCoordinator.open(tmp_path, session="t")
    async with asyncio.timeout(30):
        for number in range(20):
            watch = Watch()
            await session.read(f"a/{number}", watch=watch)
            await asyncio.gather(
                session.commit([Create(f"own/{number}", b"")]),
                other.commit([Create(f"a/{number}", b"")]),
            )
            await session.commit([Delete(f"own/{number}")])
            await watch.wait()
    await session.close()
    await other.close()


def test_a_database_that_is_opened_for_reading_refuses_writes(tmp_path: Path):
    Database(tmp_path / "records.sqlite").close()
    database = Database(tmp_path / "records.sqlite", is_read_only=True)
    with pytest.raises(CoordinatorUnavailable, match="readonly"), database.exclusively():
        database.apply([Create("a", b"")], session="s")
    database.close()


async def test_a_watch_fires_although_hundreds_of_others_wait(tmp_path: Path):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    other = await EmbeddedCoordinator.open(tmp_path, session="t")
    kept = [Watch() for _ in range(200)]
    for number, watch in enumerate(kept):
        await session.read(f"a/{number}", watch=watch)
    async with asyncio.timeout(10):
        await session.commit([Create("a/7", b"")])
        await kept[7].wait()
        await other.commit([Create("a/8", b"")])
        await kept[8].wait()
    assert sum(watch.has_fired for watch in kept) == 2
    await session.close()
    await other.close()


async def test_a_file_that_is_not_a_database_is_named_in_the_error(tmp_path: Path):
    (tmp_path / "records.sqlite").write_bytes(b"rubbish" * 1000)
    with pytest.raises(CoordinatorUnavailable, match=r"records\.sqlite.*not a database"):
        await EmbeddedCoordinator.open(tmp_path, session="s")
    assert not any((tmp_path / "sessions").iterdir())


async def test_records_of_a_later_release_are_left_alone(tmp_path: Path):
    connection = sqlite3.connect(tmp_path / "records.sqlite")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(CoordinatorUnavailable, match="version 99"):
        await EmbeddedCoordinator.open(tmp_path, session="s")


async def test_a_directory_that_cannot_be_created_is_named_in_the_error(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CoordinatorUnavailable, match="file/c"):
        await open_coordinator(f"embedded://{tmp_path}/file/c", ids=Ids())


def test_a_full_disk_refuses_the_write_and_keeps_the_rest(tmp_path: Path):
    database = Database(tmp_path / "records.sqlite")
    with database.exclusively():
        database.apply([Create("a", b"kept")], session="s")
    (pages,) = database._connection.execute("PRAGMA page_count").fetchone()
    database._connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(CoordinatorUnavailable, match="disk is full"), database.exclusively():
        database.apply([Create("b", b"x" * 400_000)], session="s")
    assert database.get("b") is None
    kept = database.get("a")
    assert kept is not None
    assert kept.value == b"kept"
    database.close()


async def test_a_database_that_vanished_is_unavailable_and_not_empty(tmp_path: Path):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    await session.commit([Create("a", b"")])
    session._session.inline.close()
    await session._thread.run(session._session._database.close)
    for call in (session.read("a"), session.children("a"), session.commit([Create("b", b"")])):
        with pytest.raises(CoordinatorUnavailable):
            await call
    await session.close()


async def test_a_session_whose_file_was_removed_is_over(tmp_path: Path):
    """Other sessions already consider the session dead, so it must stop."""
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    await session.commit([Create("election", b"", ephemeral=True)])
    (tmp_path / "sessions" / "s").unlink()
    with pytest.raises(SessionExpired):
        await session.commit([Create("late", b"")])
    assert session.state is ConnectionState.LOST
    await session.close()


async def test_a_session_that_only_watches_notices_that_its_file_was_removed(tmp_path: Path):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    watch = Watch()
    await session.read("a", watch=watch)
    (tmp_path / "sessions" / "s").unlink()
    async with asyncio.timeout(5):
        await session.wait_for_state_other_than(ConnectionState.CONNECTED)
    assert watch.has_fired
    await session.close()


async def test_without_watches_no_session_polls_for_changes(tmp_path: Path):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    watch: Watch | None = Watch()
    await session.read("a", watch=watch)
    observer = session._observer
    assert observer is not None
    del watch
    async with asyncio.timeout(5):
        await observer
    await session.close()


async def test_an_opening_that_is_cancelled_leaves_no_session(tmp_path: Path):
    opening = asyncio.ensure_future(EmbeddedCoordinator.open(tmp_path, session="s"))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not (tmp_path / "sessions" / "s").exists()
    assert not any(thread.name.startswith("coordinator") for thread in threading.enumerate())


def test_a_session_lives_as_long_as_its_lock(tmp_path: Path):
    liveness = SessionFiles(tmp_path)
    assert not liveness.is_alive("s")
    held = liveness.begin("s")
    assert liveness.is_alive("s")
    liveness.forget("s")
    assert liveness.is_alive("s")
    assert liveness.dead() == []
    held.end()
    held.end()
    assert not liveness.is_alive("s")


def test_the_file_of_a_dead_session_is_removed(tmp_path: Path):
    (tmp_path / "dead").write_bytes(b"")
    liveness = SessionFiles(tmp_path)
    assert liveness.dead() == ["dead"]
    liveness.forget("dead")
    assert liveness.dead() == []


def test_a_directory_without_locks_leaves_no_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CoordinatorUnavailable, match="No locks available"):
        SessionFiles(tmp_path).begin("s")
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert not any(tmp_path.iterdir())


def test_child_processes_do_not_inherit_the_session_lock(tmp_path: Path):
    held = SessionFiles(tmp_path).begin("s")
    descriptor = held._descriptor
    assert descriptor is not None
    assert fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    held.end()


async def test_only_ephemeral_keys_may_be_lost_with_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    modes: list[bool] = []
    database = session._session._database
    sync = database._sync_on_commit

    def noted(wanted: bool) -> None:
        modes.append(wanted)
        sync(wanted)

    monkeypatch.setattr(database, "_sync_on_commit", noted)
    await session.commit([Create("kept", b"")])
    await session.commit([Check("kept", 0), Create("gone", b"", ephemeral=True)])
    await session.commit([Check("kept", 0), Put("gone", b"1")])
    await session.commit([Put("gone", b"2"), Put("kept", b"1")])
    await session.commit([Check("kept", 1), Delete("gone")])
    await session.commit([Delete("kept")])
    assert modes == [True, False, False, True, False, True]
    (mode,) = await session._thread.run(
        lambda: database._connection.execute("PRAGMA synchronous").fetchone()
    )
    assert mode == 2, "FULL"
    await session.close()


async def test_whoever_is_cancelled_while_closing_ends_as_cancelled(tmp_path: Path):
    session = await EmbeddedCoordinator.open(tmp_path, session="s")
    watch = Watch()
    await session.read("a", watch=watch)
    await asyncio.sleep(0)
    closing = asyncio.create_task(session.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not any(thread.name.startswith("coordinator") for thread in threading.enumerate())
    assert list((tmp_path / "sessions").iterdir()) == []
