"""The called side of every transport: it runs endpoints and answers frames.

An endpoint handles calls in turns on its loop, so its state needs no locks. From the moment that
it begins to stop, every call fails at once, including those in flight: a caller must never wait for
an answer that cannot come. The stop hook runs after the last call has been refused, exactly once.
"""

import asyncio
import contextvars
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any

import msgspec

from stoker.core.errors import (
    EndpointNotStarted,
    FencingTokenMismatch,
    HandshakeFailed,
    RecipientUnreachable,
)
from stoker.metrics.catalogue import RPC_DURATION, RPC_ERRORS
from stoker.metrics.labels import OTHER
from stoker.metrics.registry import MetricGroup, unread_metrics
from stoker.rpc.interface import Interface, read_interface
from stoker.rpc.service import Endpoint, call_deadline
from stoker.rpc.wire import (
    Call,
    Handshake,
    decode_arguments,
    decode_request,
    encode_error,
    encode_result,
)

Respond = Callable[[bytes], None]
"""Receives the one answer to a frame."""


class _Stage(Enum):
    STARTING = auto()
    RUNNING = auto()
    STOPPED = auto()


class HostedEndpoint:
    """One run of an endpoint at its host."""

    def __init__(self, endpoint: Endpoint, number: int) -> None:
        self.endpoint = endpoint
        self.number = number
        """Unique among all runs of endpoints at this host."""
        self.gateway_name = type(endpoint).gateway.__name__
        self.interface: Interface = read_interface(type(endpoint).gateway)
        self.context = contextvars.copy_context()
        self.stage = _Stage.STARTING
        self.gone = asyncio.Event()
        """Set when the endpoint begins to stop: from then on it counts as absent."""
        self.terminated: asyncio.Future[Exception | None] = (
            asyncio.get_running_loop().create_future()
        )
        """Done when the endpoint has stopped, with the error of its stop hook, if any."""
        self.calls: dict[asyncio.Task[Any], Respond] = {}

    def check_fence(self, call: Call) -> None:
        expected = self.endpoint.token
        if expected is None or call.token == expected:
            return
        carried = f"token {call.token}" if call.token else "no token"
        raise FencingTokenMismatch(
            f"{self.endpoint.name}.{call.method} was called with {carried}, "
            f"the endpoint has {expected}; find the current leader and try again",
            expected=str(expected),
            received=str(call.token) if call.token else None,
        )


class EndpointHost:
    """Runs endpoints under names, at most one for each name at a time."""

    def __init__(
        self,
        address: str,
        *,
        frame_limit: int,
        version: int,
        metrics: MetricGroup | None = None,
    ) -> None:
        self.address = address
        metrics = metrics or unread_metrics()
        self._now = metrics.now
        self._durations = metrics.histogram(RPC_DURATION)
        self._errors = metrics.counter(RPC_ERRORS)
        self._frame_limit = frame_limit
        self._version = version
        self._endpoints: dict[str, HostedEndpoint] = {}
        self._numbers = itertools.count()
        self._closed = False
        self._vanished = False

    def find(self, name: str) -> HostedEndpoint | None:
        """The endpoint of that name; None when it is absent or has begun to stop."""
        hosted = self._endpoints.get(name)
        return None if hosted is None or hosted.gone.is_set() else hosted

    @asynccontextmanager
    async def running(self, endpoint: Endpoint) -> AsyncIterator[str]:
        hosted = self._admit(endpoint)
        try:
            await endpoint.on_start()
        except BaseException as error:
            hosted.gone.set()
            self._finish(hosted, error)
            raise
        if hosted.gone.is_set():
            # The service was closed meanwhile: end what the start hook has begun.
            await self._end(hosted)
            raise self._absent(endpoint.name)
        hosted.stage = _Stage.RUNNING
        try:
            yield f"{self.address}/{endpoint.name}"
        finally:
            await self._stop(hosted)

    def _admit(self, endpoint: Endpoint) -> HostedEndpoint:
        if self._closed:
            raise RuntimeError(f"{self.address} is closed, {endpoint.name} cannot start there")
        if endpoint.name in self._endpoints:
            raise ValueError(f"an endpoint named {endpoint.name} is running at {self.address}")
        hosted = HostedEndpoint(endpoint, next(self._numbers))
        endpoint.enter_service()
        self._endpoints[endpoint.name] = hosted
        return hosted

    async def _stop(self, hosted: HostedEndpoint) -> None:
        """The first caller runs the stop hook; all callers learn how it ended."""
        if hosted.stage is _Stage.RUNNING:
            await self._end(hosted)
            return
        hosted.gone.set()
        outcome = await asyncio.shield(hosted.terminated)
        if outcome is not None:
            raise outcome

    async def _end(self, hosted: HostedEndpoint) -> None:
        failure: BaseException | None = None
        try:
            try:
                await self._refuse_calls(hosted)
            finally:
                # A cancellation ends the wait for the calls, but never skips the hook.
                if not self._vanished:
                    await hosted.endpoint.on_stop()
        except BaseException as error:
            failure = error
            raise
        finally:
            self._finish(hosted, failure)

    async def _refuse_calls(self, hosted: HostedEndpoint) -> None:
        calls = self._abandon_calls(hosted)
        stopped = encode_error(self._absent(hosted.endpoint.name), self._frame_limit)
        for respond in calls.values():
            respond(stopped)
        # A call that stops its own endpoint cannot wait for itself.
        others = [task for task in calls if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _abandon_calls(self, hosted: HostedEndpoint) -> dict[asyncio.Task[Any], Respond]:
        hosted.stage = _Stage.STOPPED
        hosted.gone.set()
        calls = dict(hosted.calls)
        hosted.calls.clear()
        return calls

    def _finish(self, hosted: HostedEndpoint, failure: BaseException | None) -> None:
        hosted.endpoint.leave_service()
        if self._endpoints.get(hosted.endpoint.name) is hosted:
            del self._endpoints[hosted.endpoint.name]
        if failure is not None and not isinstance(failure, Exception):
            failure = RuntimeError(f"the stop of {hosted.endpoint.name} was cancelled")
        if not hosted.terminated.done():
            hosted.terminated.set_result(failure)

    async def close(self) -> None:
        """Stop every endpoint, even if some fail to stop; then raise their errors."""
        self._closed = True
        stops = [self._stop(hosted) for hosted in list(self._endpoints.values())]
        outcomes = await asyncio.gather(*stops, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise BaseExceptionGroup(f"endpoints at {self.address} failed to stop", failures)

    def vanish(self) -> None:
        """Behave as if the process was killed: no hook runs and no call is answered."""
        self._closed = self._vanished = True
        for hosted in list(self._endpoints.values()):
            for task in self._abandon_calls(hosted):
                task.cancel()
            self._finish(hosted, None)

    def receive(self, frame: bytes, respond: Respond) -> None:
        """Begin to answer a frame; `respond` is called once, now or later."""
        try:
            request = decode_request(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            unreadable = HandshakeFailed(f"{self.address} cannot read the request: {error}")
            respond(encode_error(unreadable, self._frame_limit))
            return
        hosted = self.find(request.endpoint)
        if hosted is None:
            respond(encode_error(self._absent(request.endpoint), self._frame_limit))
            return
        match request:
            case Handshake():
                self._shake_hands(hosted, request, respond)
            case Call():
                self._take_turn(hosted, request, respond)

    def _absent(self, name: str) -> RecipientUnreachable:
        return RecipientUnreachable(
            f"no endpoint {name} is running at {self.address}", recipient=f"{self.address}/{name}"
        )

    def _shake_hands(self, hosted: HostedEndpoint, handshake: Handshake, respond: Respond) -> None:
        place = f"{self.address}/{handshake.endpoint}"
        problem = None
        if handshake.version != self._version:
            problem = f"speaks protocol version {self._version}, the caller {handshake.version}"
        elif handshake.gateway not in hosted.interface.names:
            names = ", ".join(sorted(hosted.interface.names))
            problem = f"answers to {names}, the caller wants {handshake.gateway}"
        if problem is None:
            respond(encode_result(None, "the handshake", self._frame_limit))
        else:
            respond(encode_error(HandshakeFailed(f"{place} {problem}"), self._frame_limit))

    def _take_turn(self, hosted: HostedEndpoint, call: Call, respond: Respond) -> None:
        what = f"{hosted.endpoint.name}.{call.method}"
        respond = self._measured(hosted, call, respond)
        try:
            result = hosted.context.copy().run(self._enter_method, hosted, call)
        # The boundary between an endpoint and its callers: every error goes to the caller.
        except (Exception, asyncio.CancelledError) as error:
            self._count_error(hosted, call.method, error)
            respond(encode_error(error, self._frame_limit))
            return
        if isinstance(result, asyncio.Task):
            hosted.calls[result] = respond
            result.add_done_callback(lambda task: self._end_call(hosted, task, call.method))
        else:
            respond(encode_result(result, what, self._frame_limit))

    def _enter_method(self, hosted: HostedEndpoint, call: Call) -> Any:
        if hosted.stage is _Stage.STARTING:
            raise EndpointNotStarted(f"{call.endpoint} at {self.address} is still starting")
        hosted.check_fence(call)
        method = hosted.interface.methods.get(call.method)
        if method is None:
            raise HandshakeFailed(
                f"{call.endpoint} at {self.address} has no method {call.method}; "
                f"the caller runs another version"
            )
        arguments = decode_arguments(method, call)
        loop = asyncio.get_running_loop()
        call_deadline.set(loop.time() + call.timeout_seconds)
        result = getattr(hosted.endpoint, call.method)(**arguments)
        # Run a coroutine directly: one that is awaited by another would never begin if the task is
        # cancelled before its first step.
        if inspect.iscoroutine(result):
            return loop.create_task(result, name=f"{call.endpoint}.{call.method}")
        if inspect.isawaitable(result):
            return loop.create_task(_wait_for(result), name=f"{call.endpoint}.{call.method}")
        return result

    def _measured(self, hosted: HostedEndpoint, call: Call, respond: Respond) -> Respond:
        """The same `respond`, which also measures how long the answer took."""
        if call.method not in hosted.interface.methods:
            return respond
        began = self._now()

        def respond_measured(answer: bytes) -> None:
            self._durations.observe(self._now() - began, hosted.gateway_name, call.method)
            respond(answer)

        return respond_measured

    def _count_error(self, hosted: HostedEndpoint, method: str, error: BaseException) -> None:
        known = method if method in hosted.interface.methods else OTHER
        self._errors.increment(hosted.gateway_name, known, type(error).__name__)

    def _end_call(self, hosted: HostedEndpoint, task: asyncio.Task[Any], method: str) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        respond = hosted.calls.pop(task, None)
        if respond is None:
            return
        if error is None:
            what = f"{hosted.endpoint.name}.{method}"
            respond(encode_result(task.result(), what, self._frame_limit))
        else:
            self._count_error(hosted, method, error)
            respond(encode_error(error, self._frame_limit))


async def _wait_for(result: Awaitable[Any]) -> Any:
    return await result


def settle(answer: asyncio.Future[bytes], reply: bytes) -> None:
    """Give the caller its reply, unless it has given up."""
    if not answer.done():
        answer.set_result(reply)
