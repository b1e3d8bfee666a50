"""Asynchronous operations: they continue after the response, and clients poll them by id.

Each operation runs once, however often it is triggered under the same id, so a client can repeat a
request whose response it missed. The results belong to the process, not to a leadership: this
master answers about them also when another one leads, and before it closes it gives clients time to
read them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NewType

from stoker.api.operations import COMPLETED, IN_PROGRESS, OperationAnswer, OperationStatus
from stoker.core.errors import InvalidInput, NotFound, StokerError, Unavailable
from stoker.core.ids import Ids, JobId, is_hex_id
from stoker.rest.flink.java_throwable import failure_cause
from stoker.security.redaction import without_credentials

log = logging.getLogger(__name__)

TriggerId = NewType("TriggerId", str)
"""32 lower-case hexadecimal digits, chosen by the client or random."""

Work = Callable[[], Awaitable[dict[str, Any]]]
"""Does the operation; returns the field `operation` of the response, as in `{"location": …}`."""

MAX_KEPT = 10_000


@dataclass(frozen=True, kw_only=True)
class OperationKey:
    kind: str
    """savepoint, savepoint disposal or checkpoint; an id of one kind is unknown to the others."""
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
    """The id that the client chose, which makes its request repeatable, or a new one."""
    return parse_trigger_id(text) if text else TriggerId(ids.nonce())


class Operations:
    """All operations that were triggered at this process and are not forgotten yet."""

    def __init__(self, keep: timedelta) -> None:
        self._keep = keep.total_seconds()
        self._operations: dict[OperationKey, _Operation] = {}
        self._closing = False
        self._read = asyncio.Event()

    def trigger(self, key: OperationKey, work: Work) -> None:
        """Starts the work unless this key was triggered before. Does not wait for its result."""
        self._forget_old()
        if key in self._operations:
            return
        if self._closing:
            raise Unavailable("this master is shutting down; try again")
        task = asyncio.create_task(_run(work), name=f"{key.kind} {key.trigger_id}")
        operation = _Operation(task)
        task.add_done_callback(lambda _: self._record_end(operation))
        self._operations[key] = operation

    def __contains__(self, key: OperationKey) -> bool:
        self._forget_old()
        return key in self._operations

    def knows(self, trigger_id: str) -> bool:
        """Whether any operation has this trigger id, of whatever kind and job."""
        return any(key.trigger_id == trigger_id.lower() for key in self._operations)

    def status(self, key: OperationKey) -> OperationAnswer:
        """The state of an operation; raises NotFound for an unknown or forgotten key."""
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
        """Refuses new operations; running ones have this long to end and to be read."""
        self._closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience.total_seconds()):
                while self._has_unread():
                    self._read.clear()
                    await self._read.wait()
        for operation in self._operations.values():
            operation.task.cancel()
        tasks = [operation.task for operation in self._operations.values()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _has_unread(self) -> bool:
        self._forget_old()
        return any(not operation.was_read for operation in self._operations.values())

    def _record_end(self, operation: _Operation) -> None:
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
            # A duration of 0 keeps results as long as there is room.
            if position < surplus or (self._keep and now - at >= self._keep):
                del self._operations[key]


async def _run(work: Work) -> OperationAnswer:
    try:
        return _completed(await work())
    except StokerError as error:
        return _completed(_failure(type(error).__name__, without_credentials(error.message)))
    except Exception:
        # The top of a task whose request was answered before its work was done.
        log.exception("an operation failed")
        return _completed(
            _failure("InternalError", "internal error; the master's log has the details")
        )


def _completed(operation: dict[str, Any]) -> OperationAnswer:
    return OperationAnswer(status=OperationStatus(id=COMPLETED), operation=operation)


def _failure(error: str, message: str) -> dict[str, Any]:
    return {"failure-cause": failure_cause(error, message, f"{error}: {message}")}
