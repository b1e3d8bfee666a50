"""Until when work at a Spark server may go on."""

import asyncio
import socket
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.connect.watchdog_client import WardenLink
from stoker.engine.watchdog.leases import Guard, Guards, Release, ToWarden

SESSIONS = st.sampled_from("abc")
MOMENTS = st.integers(0, 20).map(float)
MESSAGES: st.SearchStrategy[ToWarden] = st.one_of(
    st.builds(Guard, session_id=SESSIONS, until=MOMENTS, runner=st.integers(1, 5)),
    st.builds(Release, session_id=SESSIONS),
)


def latest(heard: list[ToWarden]) -> dict[str, float]:
    """What is to be known after all that."""
    until: dict[str, float] = {}
    for message in heard:
        if isinstance(message, Guard):
            until[message.session_id] = max(message.until, until.get(message.session_id, 0.0))
        else:
            until.pop(message.session_id, None)
    return until


@given(st.lists(MESSAGES), MOMENTS)
def test_over_is_whoever_was_neither_renewed_nor_released_in_time(
    heard: list[ToWarden], now: float
) -> None:
    guards = Guards()
    for message in heard:
        guards.take(message)
    known = latest(heard)
    left = guards.seconds_left(now)
    assert left == (max(0.0, min(known.values()) - now) if known else None)
    over = {guard.session_id for guard in guards.pop_over(now)}
    assert over == {session for session, until in known.items() if until <= now}
    assert guards.pop_over(now) == [], "told once"


@given(MOMENTS, MOMENTS)
def test_the_last_runner_counts_and_the_longest_lease(first: float, second: float) -> None:
    guards = Guards()
    guards.take(Guard(session_id="a", until=first, runner=1))
    guards.take(Guard(session_id="a", until=second, runner=2))
    (guard,) = guards.pop_over(20.0)
    assert (guard.until, guard.runner) == (max(first, second), 2)


async def test_a_warden_that_reads_nothing_for_long_hears_the_last_word_on_each_session() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    link = WardenLink(ours, Path("closed"))
    with theirs:
        for renewal in range(2000):
            for session in "abc":
                link.guard(session, float(renewal), None)
        link.release("b")
        guards = Guards()
        async with asyncio.timeout(10):
            loop = asyncio.get_running_loop()
            while guards.seconds_left(0.0) != 1999.0 or _sessions(guards) != {"a", "c"}:
                data = await loop.sock_recv(theirs, 4096)
                guards.take(msgspec.msgpack.decode(data, type=ToWarden))
        link.close()
    link.guard("a", 1.0, None)  # To one that is gone: nothing happens.


def _sessions(guards: Guards) -> set[str]:
    return set(guards._guards)
