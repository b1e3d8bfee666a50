"""Until when work at a Spark server may continue."""

import asyncio
import socket
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.connect.watchdog_client import WatchdogClient
from stoker.engine.watchdog.leases import ToWatchdog, Unwatch, WatchedLeases, WatchLease

SESSIONS = st.sampled_from("abc")
MOMENTS = st.integers(0, 20).map(float)
MESSAGES: st.SearchStrategy[ToWatchdog] = st.one_of(
    st.builds(WatchLease, session_id=SESSIONS, until=MOMENTS, runner=st.integers(1, 5)),
    st.builds(Unwatch, session_id=SESSIONS),
)


def latest(heard: list[ToWatchdog]) -> dict[str, float]:
    """The lease of each session after these messages."""
    until: dict[str, float] = {}
    for message in heard:
        if isinstance(message, WatchLease):
            until[message.session_id] = max(message.until, until.get(message.session_id, 0.0))
        else:
            until.pop(message.session_id, None)
    return until


@given(st.lists(MESSAGES), MOMENTS)
def test_a_lease_expires_unless_it_is_renewed_or_unwatched_in_time(
    heard: list[ToWatchdog], now: float
) -> None:
    leases = WatchedLeases()
    for message in heard:
        leases.handle(message)
    known = latest(heard)
    left = leases.seconds_left(now)
    assert left == (max(0.0, min(known.values()) - now) if known else None)
    over = {lease.session_id for lease in leases.pop_expired(now)}
    assert over == {session for session, until in known.items() if until <= now}
    assert leases.pop_expired(now) == [], "each lease is returned once"


@given(MOMENTS, MOMENTS)
def test_the_last_runner_and_the_longest_lease_count(first: float, second: float) -> None:
    leases = WatchedLeases()
    leases.handle(WatchLease(session_id="a", until=first, runner=1))
    leases.handle(WatchLease(session_id="a", until=second, runner=2))
    (lease,) = leases.pop_expired(20.0)
    assert (lease.until, lease.runner) == (max(first, second), 2)


async def test_a_watchdog_that_was_busy_receives_the_latest_lease_of_each_session() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    client = WatchdogClient(ours, Path("closed"))
    with theirs:
        for renewal in range(2000):
            for session in "abc":
                client.watch(session, float(renewal), None)
        client.unwatch("b")
        leases = WatchedLeases()
        async with asyncio.timeout(10):
            loop = asyncio.get_running_loop()
            while leases.seconds_left(0.0) != 1999.0 or _sessions(leases) != {"a", "c"}:
                data = await loop.sock_recv(theirs, 4096)
                leases.handle(msgspec.msgpack.decode(data, type=ToWatchdog))
        client.close()
    client.watch("a", 1.0, None)  # Harmless when the watchdog is gone.


def _sessions(leases: WatchedLeases) -> set[str]:
    return set(leases._leases)
