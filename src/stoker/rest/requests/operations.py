"""Operations that go on after their request was answered: each runs once, and is asked for by id.

The store belongs to the process, not to a leadership: whoever asks after a change of leader in
the same process still learns how the operation ended.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NewType

from stoker.api.operations import (
    COMPLETED,
    IN_PROGRESS,
    OperationAnswer,
    OperationStatus,
)
from stoker.core.errors import InvalidInput, NotFound, StokerError, Unavailable
from stoker.core.ids import Ids, JobId, is_hex_id
from stoker.rest.flink.java_throwable import failure_cause

log = logging.getLogger(__name__)

TriggerId = NewType("TriggerId", str)
"""32 lower-case hexadecimal digits, chosen by the client or random."""

Work = Callable[[], Awaitable[dict[str, Any]]]
"""Does the operation; the answer is what `operation` shows, for example `{"location": …}`."""

MAX_KEPT = 10_000


@dataclass(frozen=True, kw_only=True)
class OperationKey:
    kind: str
    """savepoint, checkpoint, disposal, rescale …: an id of one kind is unknown to the others."""
    trigger_id: TriggerId
    job_id: JobId | None = None


@dataclass
class _Operation:
    task: "asyncio.Task[OperationAnswer]"
    ended_at: float | None = None
    was_read: bool = False


def parse_trigger_id(text: str) -> TriggerId:
    lowered = text.lower()
    if not is_hex_id(lowered):
        raise InvalidInput(f"a trigger id is 32 hexadecimal digits, found {text!r}")
    return TriggerId(lowered)


def choose_trigger_id(text: str | None, ids: Ids) -> TriggerId:
    """The client's own id, by which a repeated request is the same one; or a new one."""
    return parse_trigger_id(text) if text else TriggerId(ids.nonce())


class Operations:
    """All operations that were triggered at this process and not forgotten yet."""

    def __init__(self, keep: timedelta) -> None:
        self._keep = keep.total_seconds()
        self._operations: dict[OperationKey, _Operation] = {}
        self._closing = False
        self._read = asyncio.Event()

    def trigger(self, key: OperationKey, work: Work) -> None:
        """Begin, unless the same key was triggered before; the result does not count as read."""
        self._forget_old()
        if key in self._operations:
            return
        if self._closing:
            raise Unavailable("this master is shutting down; try again")
        task = asyncio.create_task(_outcome(work), name=f"{key.kind} {key.trigger_id}")
        operation = _Operation(task)
        task.add_done_callback(lambda _: self._ended(operation))
        self._operations[key] = operation

    def __contains__(self, key: OperationKey) -> bool:
        self._forget_old()
        return key in self._operations

    def status(self, key: OperationKey) -> OperationAnswer:
        """How far it is; NotFound for a key that was never triggered here or was forgotten."""
        self._forget_old()
        operation = self._operations.get(key)
        if operation is None:
            raise NotFound(
                f"no {key.kind} operation with trigger id {key.trigger_id}; results are kept for "
                f"{self._keep:g} s, and only by the master that led when it was triggered"
            )
        if not operation.task.done():
            return OperationAnswer(status=OperationStatus(id=IN_PROGRESS))
        operation.was_read = True
        self._read.set()
        return operation.task.result()

    async def close(self, patience: timedelta = timedelta()) -> None:
        """Nothing new begins; what was begun has this long to end and to be read."""
        self._closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience.total_seconds()):
                while self._unread():
                    self._read.clear()
                    await self._read.wait()
        for operation in self._operations.values():
            operation.task.cancel()
        tasks = [operation.task for operation in self._operations.values()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _unread(self) -> bool:
        self._forget_old()
        return any(not operation.was_read for operation in self._operations.values())

    def _ended(self, operation: _Operation) -> None:
        operation.ended_at = operation.task.get_loop().time()

    def _forget_old(self) -> None:
        now = asyncio.get_running_loop().time()
        ended = [
            (key, operation.ended_at)
            for key, operation in self._operations.items()
            if operation.ended_at is not None
        ]
        surplus = len(self._operations) - MAX_KEPT
        for position, (key, at) in enumerate(sorted(ended, key=lambda each: each[1])):
            # A duration of 0 keeps results for as long as there is room.
            if position < surplus or (self._keep and now - at >= self._keep):
                del self._operations[key]


async def _outcome(work: Work) -> OperationAnswer:
    try:
        return _completed(await work())
    except StokerError as error:
        return _completed(_failure(type(error).__name__, error.message))
    except Exception:
        # The border of a request that was answered before its work was done.
        log.exception("an operation failed")
        return _completed(
            _failure("InternalError", "internal error; the master's log tells more about it")
        )


def _completed(operation: dict[str, Any]) -> OperationAnswer:
    return OperationAnswer(status=OperationStatus(id=COMPLETED), operation=operation)


def _failure(error: str, message: str) -> dict[str, Any]:
    return {"failure-cause": failure_cause(error, message, f"{error}: {message}")}
