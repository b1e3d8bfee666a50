"""Many calls over one stream, which may be slow, break or be closed."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import virtual
from stoker.rpc.conversation import Conversation, ConversationServer, Outbox, message_limit

LIMIT = 256 * 1024


class Broken(Exception):
    """The error that callers get when the stream has ended."""


class Stream:
    """One end of a pair: reads what the other end wrote, until one of the two is closed."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[Any] = asyncio.Queue()
        self.other: Stream | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.written: list[bytes] = []

    async def write(self, bundle: bytes) -> None:
        await self.gate.wait()
        self.written.append(bundle)
        if self.other is not None:
            self.other.incoming.put_nowait(bundle)

    async def read(self) -> Any:
        return await self.incoming.get()

    def end(self) -> None:
        self.incoming.put_nowait(grpc.aio.EOF)

    def cancel(self) -> None:
        if self.other is not None:
            self.other.end()


def pair() -> tuple[Stream, Stream]:
    here, there = Stream(), Stream()
    here.other, there.other = there, here
    return here, there


def numbers_in(bundle: bytes) -> list[int]:
    return [number for number, _ in msgspec.msgpack.decode(bundle)]


class Host:
    """Records the requests that it receives, each with the function that answers it."""

    def __init__(self) -> None:
        self.asked: dict[bytes, Callable[[bytes], None]] = {}
        self._news = asyncio.Event()

    def receive(self, frame: bytes, respond: Callable[[bytes], None]) -> None:
        self.asked[frame] = respond
        self._news.set()

    async def wait_for(self, *frames: bytes) -> None:
        async with asyncio.timeout(5):
            while not self.asked.keys() >= set(frames):
                await self._news.wait()
                self._news.clear()


async def open_conversation(
    here: Stream, there: Stream
) -> tuple[Conversation, Host, ConversationServer, Any]:
    host = Host()
    answering = ConversationServer(host.receive)
    serving = asyncio.create_task(answering.converse(there))
    return Conversation(here, lambda _: Broken()), host, answering, serving


async def close_conversation(conversation: Conversation, serving: Any) -> None:
    await conversation.close()
    async with asyncio.timeout(5):
        await serving


async def test_answers_reach_their_callers_in_any_order():
    conversation, host, _, serving = await open_conversation(*pair())
    calls = {frame: asyncio.create_task(conversation.ask(frame, 5)) for frame in (b"a", b"b")}
    await host.wait_for(b"a", b"b")
    for frame in (b"b", b"a"):
        host.asked[frame](b"to " + frame)
        assert await calls[frame] == b"to " + frame
    await close_conversation(conversation, serving)


async def test_an_answer_without_a_waiting_caller_is_ignored():
    conversation, host, _, serving = await open_conversation(*pair())
    late = asyncio.create_task(conversation.ask(b"late", 0.01))
    gone = asyncio.create_task(conversation.ask(b"gone", 5))
    other = asyncio.create_task(conversation.ask(b"other", 5))
    await host.wait_for(b"late", b"gone", b"other")
    gone.cancel()
    with pytest.raises(TimeoutError):
        await late
    for frame in (b"late", b"gone", b"other"):
        host.asked[frame](frame)
    assert await other == b"other"
    assert gone.cancelled()
    await close_conversation(conversation, serving)


@virtual
async def test_a_call_cancelled_before_it_was_sent_is_not_sent():
    here, there = pair()
    conversation, host, _, serving = await open_conversation(here, there)
    here.gate.clear()
    first = asyncio.create_task(conversation.ask(b"on its way", 5))
    await asyncio.sleep(0.01)
    with pytest.raises(TimeoutError):
        await conversation.ask(b"given up", 0.01)
    last = asyncio.create_task(conversation.ask(b"last", 5))
    here.gate.set()
    await host.wait_for(b"on its way", b"last")
    assert b"given up" not in host.asked
    for frame, call in ((b"on its way", first), (b"last", last)):
        host.asked[frame](b"")
        await call
    await close_conversation(conversation, serving)


async def test_the_end_of_the_stream_fails_all_present_and_later_calls():
    here, there = pair()
    conversation, host, _, serving = await open_conversation(here, there)
    calls = [asyncio.create_task(conversation.ask(frame, 5)) for frame in (b"a", b"b")]
    await host.wait_for(b"a", b"b")
    here.end()
    for call in calls:
        with pytest.raises(Broken):
            await call
    assert conversation.is_over
    with pytest.raises(Broken):
        await conversation.ask(b"c", 5)
    await close_conversation(conversation, serving)


@virtual
async def test_answers_given_before_the_close_are_still_sent():
    here, there = pair()
    conversation, host, answering, serving = await open_conversation(here, there)
    answered = asyncio.create_task(conversation.ask(b"answered", 5))
    asyncio.create_task(conversation.ask(b"never", 5)).add_done_callback(
        lambda task: task.exception()
    )
    await host.wait_for(b"answered", b"never")
    there.gate.clear()
    host.asked[b"answered"](b"yes")
    answering.close()
    await asyncio.sleep(0.01)
    assert not serving.done()
    there.gate.set()
    async with asyncio.timeout(5):
        await serving
    assert await answered == b"yes"
    await close_conversation(conversation, serving)


async def test_messages_that_wait_for_a_slow_stream_are_sent_as_one_bundle():
    stream = Stream()
    outbox = Outbox(stream.write)
    sending = asyncio.create_task(outbox.send_all())
    stream.gate.clear()
    outbox.put(0, b"first")
    await asyncio.sleep(0)
    for number in range(1, 10):
        outbox.put(number, b"frame")
    stream.gate.set()
    await outbox.wait_until_empty()
    sending.cancel()
    assert [numbers_in(bundle) for bundle in stream.written] == [[0], list(range(1, 10))]


async def bundles_of(sizes: list[int]) -> list[bytes]:
    stream = Stream()
    outbox = Outbox(stream.write)
    for number, size in enumerate(sizes):
        outbox.put(number, bytes(size))
    sending = asyncio.create_task(outbox.send_all())
    await outbox.wait_until_empty()
    sending.cancel()
    return stream.written


async def test_a_bundle_of_many_small_frames_keeps_the_limit():
    """Beside thousands of empty answers, their numbers take the most bytes."""
    for size in (0, 22):
        for bundle in await bundles_of([size] * 20_000):
            assert len(bundle) <= message_limit(0)


@given(st.lists(st.integers(0, LIMIT * 2), max_size=12))
def test_bundles_keep_the_order_and_their_limit(sizes: list[int]):
    written = asyncio.run(bundles_of(sizes))
    assert [number for bundle in written for number in numbers_in(bundle)] == [*range(len(sizes))]
    for bundle in written:
        assert len(bundle) <= LIMIT + 200 or len(numbers_in(bundle)) == 1
