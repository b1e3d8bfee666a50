"""Orders from the task executor to stop a stream at a batch boundary, and the answers.

Orders and answers are small files in the attempt's directory. Three processes on this machine read
them: the runner, a runner that takes over from it, and the Python worker that runs `foreachBatch`
functions.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from stoker.core.values import Value
from stoker.osproc.atomic_file import write_atomically

V = TypeVar("V", bound=Value)

_ORDER = "suspend.json"
_ANSWER = "boundary.json"
_DECISION = "decision.json"


class SuspendOrder(Value):
    """Stop at the next batch boundary, then wait for the decision."""

    order_id: str
    limit_seconds: float
    """If no boundary is reached within this time, the stream continues."""
    hold_seconds: float
    """If no decision arrives within this time, the stream continues."""


class Boundary(Value):
    """The runner's answer to an order."""

    order_id: str
    reached: bool
    batch_id: int | None = None
    reason: str = ""
    """Why the stream continued."""


class Decision(Value):
    """The end of the wait at a boundary: sent when the savepoint is complete, or has failed."""

    order_id: str
    finish: bool
    """Whether the task is over; otherwise the stream continues."""


class StreamControl:
    def __init__(self, directory: Path) -> None:
        self._directory = directory / "control"

    @property
    def order_file(self) -> Path:
        return self._directory / _ORDER

    def order(self) -> SuspendOrder | None:
        return self._read(_ORDER, SuspendOrder)

    def boundary(self, order_id: str) -> Boundary | None:
        answer = self._read(_ANSWER, Boundary)
        return answer if answer is not None and answer.order_id == order_id else None

    def decision(self, order_id: str) -> Decision | None:
        decision = self._read(_DECISION, Decision)
        return decision if decision is not None and decision.order_id == order_id else None

    # The task executor's side

    def suspend(self, order: SuspendOrder) -> None:
        self._write(_ORDER, order)

    def decide(self, decision: Decision) -> None:
        self._write(_DECISION, decision)

    # The runner's side

    def answer(self, boundary: Boundary) -> None:
        self._write(_ANSWER, boundary)

    def clear_order(self) -> None:
        """Remove the order, so that `foreachBatch` functions run again."""
        self.order_file.unlink(missing_ok=True)

    def _write(self, name: str, value: Value) -> None:
        # Without parents: the directory of an ended attempt must not reappear.
        self._directory.mkdir(exist_ok=True)
        write_atomically(self._directory / name, msgspec.json.encode(value))

    def _read(self, name: str, kind: type[V]) -> V | None:
        try:
            return msgspec.json.decode((self._directory / name).read_bytes(), type=kind)
        except FileNotFoundError:
            return None
