"""How a task executor tells a stream to end at a batch boundary, and hears that it did.

By small files in the attempt's directory: they reach the runner, a runner that takes over from
it, and the Python worker in which `foreachBatch` functions run, all on the same machine.
"""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from stoker.core.values import Value

V = TypeVar("V", bound=Value)

_ORDER = "suspend.json"
_ANSWER = "boundary.json"
_DECISION = "decision.json"


class SuspendOrder(Value):
    """End at the next batch boundary, then wait for the decision."""

    order_id: str
    limit_seconds: float
    """Without a boundary until then the stream goes on."""
    hold_seconds: float
    """Without a decision until then the stream goes on."""


class Boundary(Value):
    """What became of the order."""

    order_id: str
    reached: bool
    batch_id: int | None = None
    reason: str = ""
    """Why the stream went on."""


class Decision(Value):
    order_id: str
    finish: bool
    """The task is over; otherwise the stream goes on."""


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

    def go_on(self) -> None:
        """The order is over; functions of `foreachBatch` run again."""
        self.order_file.unlink(missing_ok=True)

    def _write(self, name: str, value: Value) -> None:
        # Not its parents: the directory of an attempt that is over stays gone.
        self._directory.mkdir(exist_ok=True)
        unfinished = self._directory / f".{name}"
        unfinished.write_bytes(msgspec.json.encode(value))
        os.replace(unfinished, self._directory / name)

    def _read(self, name: str, kind: type[V]) -> V | None:
        try:
            return msgspec.json.decode((self._directory / name).read_bytes(), type=kind)
        except FileNotFoundError:
            return None
