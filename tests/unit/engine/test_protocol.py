"""Messages between task executor and runner: how they are framed, and where they end."""

import socket

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.protocol import (
    LARGEST_MESSAGE,
    Cancel,
    Deframer,
    EndSession,
    Prepare,
    Ready,
    RunnerEnd,
    ToRunner,
    frame,
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
