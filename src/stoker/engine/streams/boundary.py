"""Stop a streaming query between two batches, and continue it from there.

A savepoint that a job stops with must contain exactly the batches whose effects are visible. Spark
has no call for this: `stop()` interrupts the running batch.

A `foreachBatch` function is therefore wrapped: once a stop is ordered, it fails before it has any
effect, and its batch runs again later. With other sinks the query is stopped while it is idle, or
right after a commit. A batch that has begun by then is already planned, so it is repeated with the
same rows, and a sink that recognizes batches by number, as the file sink does, writes it once.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from stoker.core.results import Progress
from stoker.engine.python_worker.stoker_python_daemon import PIPES
from stoker.engine.streams.control import Boundary, Decision, StreamControl, SuspendOrder
from stoker.engine.streams.watch import StreamLost, watch_stream

MARK = "stoker: no batch begins, the stream is stopping at a batch boundary"
_POLL_SECONDS = 0.05

Report = Callable[[Progress], None]
StartQuery = Callable[[], Any]
ForeachBatch = Callable[[Any, int], None]


def guard_function(
    function: ForeachBatch, order_file: Path, output: Path | None = None
) -> ForeachBatch:
    """Wrap the function so that no batch begins while the file exists.

    `output` is the directory with the pipes into which the function prints; None if it runs in
    this process.
    """
    # Pickled by value for a worker that may lack this module, so it must be self-contained.
    path, mark = str(order_file), MARK
    pipes = () if output is None else tuple(str(output / name) for name in PIPES)
    redirections = (redirect_stdout, redirect_stderr)

    def run_unless_stopping(frame: Any, batch_id: int) -> None:
        if Path(path).exists():
            raise RuntimeError(mark)
        try:
            from stoker.engine.region.catalog_guard import guard_sessions_of  # noqa: PLC0415
        except ImportError:
            pass  # A worker on another machine, without Stoker.
        else:
            guard_sessions_of(frame)
        with ExitStack() as stack:
            for pipe, redirection in zip(pipes, redirections, strict=False):
                try:
                    opened = os.open(pipe, os.O_RDWR)
                except OSError:
                    continue
                stream = stack.enter_context(
                    open(opened, "w", 1, encoding="utf-8", errors="backslashreplace")
                )
                stack.enter_context(redirection(stream))
            function(frame, batch_id)

    return run_unless_stopping


class StreamRun:
    """A query that can be stopped and started again any number of times in one attempt.

    `start` starts the query again; None if this runner took it over and cannot start it.
    `is_guarded`: its sink is a function that `guard_function` has wrapped.
    """

    def __init__(
        self,
        control: StreamControl,
        report: Report,
        start: StartQuery | None,
        *,
        is_guarded: bool = False,
    ) -> None:
        self._control = control
        self._report = report
        self._start = start
        self._is_guarded = is_guarded
        self._last = Progress()
        self._stopped_for: SuspendOrder | None = None
        self._declined: str | None = None
        self.query: Any = None

    def follow(self, query: Any, known: Progress | None = None) -> None:
        """Follow the stream to its end; raises its failure."""
        self.query = query
        while True:
            self._watch(known)
            order = self._stopped_for
            if order is None:
                return
            if self._wait_for_decision(order):
                return
            self._stopped_for = None
            self._control.clear_order()
            known = self._restart()

    def _restart(self) -> Progress:
        if self._start is None:
            raise StreamLost(
                "the stream was stopped for a savepoint; the next attempt continues it"
            )
        self.query = self._start()
        before = self._last
        return Progress(
            query_id=str(self.query.id),
            run_id=str(self.query.runId),
            batch_id=before.batch_id,
            batches=before.batches,
            rows_read=before.rows_read,
            rows_written=before.rows_written,
            recent_batches=before.recent_batches,
        )

    def _watch(self, known: Progress | None) -> None:
        try:
            for progress in watch_stream(self.query, known, self._stop_if_ordered):
                self._last = progress
                self._report(progress)
        except PySparkException as error:
            order = self._control.order()
            if order is None or MARK not in str(error):
                raise
            self._stopped_for = order

    def _stop_if_ordered(self) -> None:
        order = self._control.order()
        if order is None or order.order_id == self._declined:
            return
        if self._reach_boundary(order):
            self._stopped_for = order
            return
        self._declined = order.order_id
        self._control.clear_order()
        self._control.answer(
            Boundary(
                order_id=order.order_id,
                reached=False,
                reason=f"its batch was not over within {order.limit_seconds:g} s",
            )
        )

    def _reach_boundary(self, order: SuspendOrder) -> bool:
        """Stop the query between two batches; return whether that was possible in time."""
        deadline = time.monotonic() + order.limit_seconds
        began = self._committed()
        while time.monotonic() < deadline:
            if not self.query.isActive:
                return True
            idle = not self.query.status["isTriggerActive"]
            if idle or (not self._is_guarded and self._committed() != began):
                self.query.stop()
                return True
            time.sleep(_POLL_SECONDS)
        return False

    def _committed(self) -> int | None:
        latest = self.query.lastProgress
        return None if latest is None else int(latest["batchId"])

    def _wait_for_decision(self, order: SuspendOrder) -> bool:
        """Report the boundary and wait; True if the task is over, False if it continues."""
        self._control.answer(
            Boundary(order_id=order.order_id, reached=True, batch_id=self._last.batch_id)
        )
        deadline = time.monotonic() + order.hold_seconds
        decision: Decision | None = None
        while decision is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            decision = self._control.decision(order.order_id)
        return decision is not None and decision.finish
