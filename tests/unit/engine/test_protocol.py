"""Messages between task executor and runner: how they are framed, and where they end."""

import asyncio
import socket

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.protocol import (
    LARGEST_MESSAGE,
    LARGEST_REPORT,
    Cancel,
    Deframer,
    EndSession,
    FromRunner,
    Malformed,
    Prepare,
    Ready,
    RunnerEnd,
    ToRunner,
    frame,
    receive,
)

messages = st.one_of(
    st.builds(Prepare, url=st.text()),
    st.builds(EndSession, url=st.text(), session_id=st.text()),
    st.just(Cancel()),
)


@given(sent=st.lists(messages), cuts=st.lists(st.integers(min_value=1, max_value=40)))
def test_messages_arrive_whole_however_their_bytes_are_cut(
    sent: list[ToRunner], cuts: list[int]
) -> None:
    stream = b"".join(frame(message) for message in sent)
    deframer = Deframer()
    bodies: list[bytes] = []
    for size in cuts:
        bodies += deframer.feed(stream[:size])
        stream = stream[size:]
    bodies += deframer.feed(stream)
    assert [msgspec.msgpack.decode(body, type=ToRunner) for body in bodies] == sent


def test_an_impossible_message_length_is_refused_before_memory_is_allocated() -> None:
    with pytest.raises(ValueError, match="is over"):
        Deframer().feed((LARGEST_MESSAGE + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("has_unread", [True, False])
def test_a_runner_receives_no_message_once_its_task_executor_is_dead(has_unread: bool) -> None:
    """The kernel resets the connection if the task executor leaves messages unread."""
    ours, theirs = socket.socketpair()
    with theirs:
        end = RunnerEnd(theirs)
        if has_unread:
            end.send(Ready())
        ours.close()
        assert end.receive() is None


async def received(data: bytes) -> FromRunner | Malformed | None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await receive(reader)


async def test_a_report_of_a_child_arrives() -> None:
    assert await received(frame(Ready(spark_version="4"))) == Ready(spark_version="4")


async def test_a_child_that_ends_within_a_message_is_gone() -> None:
    assert await received(frame(Ready())[:-1]) is None


async def test_a_report_that_is_too_long_is_refused_before_it_is_read() -> None:
    """The task executor would otherwise hold whatever a job writes to the socket in memory."""
    length = (LARGEST_REPORT + 1).to_bytes(4, "big")
    assert isinstance(await received(length), Malformed)


@given(body=st.binary(max_size=50))
def test_bytes_that_are_no_message_are_malformed_or_a_message(body: bytes) -> None:
    data = len(body).to_bytes(4, "big") + body
    answer = asyncio.run(received(data))
    assert answer is not None
