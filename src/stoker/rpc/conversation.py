"""Many calls and their answers over one gRPC stream between two processes.

Sending a frame over an open stream costs less than a gRPC call of its own. Frames are numbered, so
that answers find their callers, and are bundled when many of them wait.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import grpc
import msgspec

from stoker.core.errors import StokerError
from stoker.rpc.admission import Greet, greet_nobody

Numbered = tuple[int, bytes]

LARGEST_FRAME = 64 * 1024
"""Largest request on the stream; a larger one is a call of its own, so that others do not wait."""
_LARGEST_BUNDLE = 4 * LARGEST_FRAME
_NUMBER_BYTES = 16
"""More than the number and the length of a frame take in a bundle."""
_MARGIN = 64 * 1024
"""Allowed beyond the size of a bundle; part of the limit that peers of all releases use."""

_bundles: msgspec.msgpack.Decoder[list[Numbered]] = msgspec.msgpack.Decoder(list[Numbered])


def message_limit(frame_limit: int) -> int:
    """The message size that gRPC must accept for frames up to `frame_limit` bytes."""
    return max(frame_limit, _LARGEST_BUNDLE) + _MARGIN


class Outbox:
    """Sends frames in order, bundle by bundle."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._frames: list[Numbered] = []
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()

    def put(self, number: int, frame: bytes) -> None:
        self._frames.append((number, frame))
        self._emptied.clear()
        self._filled.set()

    def withdraw(self, number: int) -> None:
        """Drop the frame unless it is already on its way."""
        self._frames = [frame for frame in self._frames if frame[0] != number]

    async def wait_until_empty(self) -> None:
        await self._emptied.wait()

    async def send_all(self) -> None:
        """Send until the stream ends."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._frames:
                await self._write(msgspec.msgpack.encode(self._next_bundle()))
            self._emptied.set()

    def _next_bundle(self) -> list[Numbered]:
        """The next frames that fit into a bundle, at least one."""
        size = count = 0
        for _, frame in self._frames:
            size += len(frame) + _NUMBER_BYTES
            if count and size > _LARGEST_BUNDLE:
                break
            count += 1
        bundle = self._frames[:count]
        del self._frames[:count]
        return bundle


class Conversation:
    """The calling side, which owns its stream."""

    def __init__(
        self, stream: Any, failure_of: Callable[[Any], Exception], greet: Greet = greet_nobody
    ) -> None:
        self._stream = stream
        self._failure_of = failure_of
        """Makes the error for callers from that of the stream; None if the peer closed it."""
        self._greet = greet
        self._admitted = asyncio.Event()
        self._callers: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = itertools.count()
        self._outbox = Outbox(stream.write)
        self._error: Any = None
        self.is_over = False
        self._sending = asyncio.create_task(self._send(), name="rpc/send")
        self._listening = asyncio.create_task(self._listen(), name="rpc/listen")

    async def ask(self, frame: bytes, seconds: float) -> bytes:
        """Send the frame and return its answer; TimeoutError, or the failure of the stream."""
        if self.is_over:
            raise self._failure_of(self._error)
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        answer: asyncio.Future[bytes] = loop.create_future()
        self._callers[number] = answer
        self._outbox.put(number, frame)
        timer = loop.call_later(seconds, give_up, answer)
        try:
            return await answer
        except BaseException:
            # A frozen peer must not find outdated calls when it wakes up.
            self._outbox.withdraw(number)
            raise
        finally:
            timer.cancel()
            self._callers.pop(number, None)

    async def _send(self) -> None:
        await self._admitted.wait()
        # The listening task learns how the stream has ended.
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._outbox.send_all()

    async def _listen(self) -> None:
        try:
            await self._greet()
            self._admitted.set()
            while (bundle := await self._stream.read()) is not grpc.aio.EOF:
                for number, reply in _bundles.decode(bundle):
                    answer = self._callers.get(number)
                    if answer is not None and not answer.done():
                        answer.set_result(reply)
        except (grpc.aio.AioRpcError, StokerError) as error:
            self._error = error
        except msgspec.MsgspecError:
            # The peer does not speak this protocol.
            self._stream.cancel()
        finally:
            self._finish()

    def _finish(self) -> None:
        self.is_over = True
        self._sending.cancel()
        for answer in self._callers.values():
            if not answer.done():
                answer.set_exception(self._failure_of(self._error))

    async def close(self) -> None:
        self._stream.cancel()
        tasks = (self._sending, self._listening)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def give_up(answer: asyncio.Future[bytes]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


Receive = Callable[[bytes, Callable[[bytes], None]], None]
"""Begins to answer a frame, and calls the given function once with the reply, now or later."""


class ConversationServer:
    """The called side: all its conversations, which end together."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._closing = asyncio.Event()

    async def converse(self, context: Any) -> None:
        """Serve a stream until the caller or this side closes it; later answers are dropped."""
        outbox = Outbox(context.write)
        sending = asyncio.create_task(outbox.send_all(), name="rpc/reply")
        listening = asyncio.create_task(self._listen(context, outbox), name="rpc/answer")
        closing = asyncio.create_task(self._flush_at_close(outbox), name="rpc/flush")
        tasks = (sending, listening, closing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, context: Any, outbox: Outbox) -> None:
        while (bundle := await context.read()) is not grpc.aio.EOF:
            for number, frame in _bundles.decode(bundle):
                self._receive(frame, partial(outbox.put, number))

    async def _flush_at_close(self, outbox: Outbox) -> None:
        await self._closing.wait()
        await outbox.wait_until_empty()

    def close(self) -> None:
        """Close all conversations after sending the answers that are ready."""
        self._closing.set()
