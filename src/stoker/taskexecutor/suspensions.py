"""Streams that are suspended at a batch boundary for a savepoint, then finished or resumed.

A stream runs in a process of its own. Orders and answers are files in the directory of its attempt
(`engine/streams/control.py`), so this module has no state and every command may be repeated.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.core.errors import NotFound
from stoker.engine.streams.control import Decision, StreamControl, SuspendOrder
from stoker.gateways.taskexecutor import Suspension
from stoker.taskexecutor.attempt_files import attempt_directory
from stoker.taskexecutor.held_task import HeldTask

_OVER = "the attempt is not here, or is over"


class Suspensions:
    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir

    def suspend(self, held: HeldTask | None, order: str, limit: float, hold: float) -> None:
        control = self._control(held)
        current = control.order()
        if current is None or current.order_id != order:
            wanted = SuspendOrder(order_id=order, limit_seconds=limit, hold_seconds=hold)
            with _missing_as_not_found():
                control.suspend(wanted)

    def state_of(self, held: HeldTask | None, order: str) -> Suspension:
        control = self._control(held)
        boundary = control.boundary(order)
        current = control.order()
        asked = current is not None and current.order_id == order
        if boundary is None:
            return Suspension(asked=asked)
        if not boundary.reached:
            return Suspension(asked=True, refused=boundary.reason)
        # Without the order the stream has resumed: by a decision, or because none came in time.
        return Suspension(asked=asked, reached=asked, batch_id=boundary.batch_id)

    def decide(self, held: HeldTask | None, order: str, finish: bool) -> None:
        with _missing_as_not_found():
            self._control(held).decide(Decision(order_id=order, finish=finish))

    def _control(self, held: HeldTask | None) -> StreamControl:
        if held is None or held.over.is_set():
            raise NotFound(_OVER)
        return StreamControl(attempt_directory(self._work_dir, held.attempt))


@contextmanager
def _missing_as_not_found() -> Iterator[None]:
    """Report a missing directory as NotFound: it is removed just before the outcome is known."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(_OVER) from None
