"""An event loop on virtual time: hours of timers pass in milliseconds, and every run is the same.

When nothing is ready, time jumps to the next timer. When there is no timer either, nothing can
happen any more: that deadlock is raised with the name of every waiting task. So is a livelock, in
which some callback is always ready and time never passes. Threads are refused, because their timing
cannot be repeated.

Code that runs for a simulated process can be frozen: its callbacks and timers are held back, and
all run, in their order, when it wakes up and finds that time has passed.
"""

import asyncio
import heapq
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar
from typing import Any, NoReturn, TypeVar, TypeVarTuple, cast

from stoker.aio.clock import WallClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

running_process: ContextVar[str] = ContextVar("running_process")
"""The simulated process whose code runs; tasks and timers inherit it."""

SIMULATION_EPOCH_MS = 1_750_000_000_000
"""Wall clock time at loop time zero: a plausible date."""

TURNS_AT_ONE_MOMENT = 50_000
"""Turns of the loop without progress of time before a livelock is assumed."""


class Deadlock(AssertionError):
    """Tasks wait, and no event can wake any of them."""


class Livelock(AssertionError):
    """Some callback is always ready, so time never passes."""


class LeakedTasks(AssertionError):
    """The main coroutine ended before tasks that were started."""


class UnhandledFailure(AssertionError):
    """An error in a callback, or in a task that was never awaited."""


class _NeverWaitingSelector(selectors.SelectSelector):
    """Polls its files without waiting, and calls `pass_time` in place of the wait."""

    pass_time: Callable[[float | None], None]
    stand_still: Callable[[], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0):
            self.pass_time(timeout)
        else:
            self.stand_still()
        return ready


class _Turn(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        if not cast(Any, self)._loop.holds_back(self):
            cast(Any, super())._run()


class _Timer(asyncio.TimerHandle):
    __slots__ = ()

    def _run(self) -> None:
        if not cast(Any, self)._loop.holds_back(self):
            cast(Any, super())._run()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`random` is seeded, so that code which draws from it behaves the same in every run."""

    def __init__(self, *, seed: int | None = None, start: float = 0.0) -> None:
        self._now = start
        self.random = random.Random(seed or 0)
        self.unhandled: list[Mapping[str, Any]] = []
        selector = _NeverWaitingSelector()
        super().__init__(selector)
        selector.pass_time = self._pass_time
        selector.stand_still = self._stand_still
        self._turns = 0
        self._held_back: dict[str, list[asyncio.Handle]] = {}
        self.set_exception_handler(lambda _loop, context: self.unhandled.append(context))

    def time(self) -> float:
        return self._now

    def _pass_time(self, timeout: float | None) -> None:
        if timeout is None:
            raise Deadlock(f"deadlock at {self._now:.3f} s of virtual time{_listing(self)}")
        self._now += timeout
        self._turns = 0

    def _stand_still(self) -> None:
        self._turns += 1
        if self._turns > TURNS_AT_ONE_MOMENT:
            self._turns = 0
            raise Livelock(f"time stands still at {self._now:.3f} s{_listing(self)}")

    def freeze(self, process: str) -> None:
        self._held_back.setdefault(process, [])

    def thaw(self, process: str) -> None:
        """Run everything that came due meanwhile; does nothing for a process that is not frozen."""
        cast(Any, self)._ready.extend(self._held_back.pop(process, ()))

    def is_frozen(self, process: str) -> bool:
        return process in self._held_back

    def holds_back(self, handle: asyncio.Handle) -> bool:
        context: Context = cast(Any, handle)._context
        held = self._held_back.get(context.get(running_process, ""))
        if held is None:
            return False
        held.append(handle)
        return True

    def _call_soon(
        self, callback: Callable[..., object], args: Any, context: Context | None
    ) -> asyncio.Handle:
        turn = _Turn(callback, args, self, context)
        cast(Any, self)._ready.append(turn)
        return turn

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(cast(Any, self)._scheduled, timer)
        cast(Any, timer)._scheduled = True
        return timer

    def run_in_executor(self, *_: object) -> NoReturn:
        raise RuntimeError("no threads on virtual time: run this with an in-memory implementation")


def _place(task: asyncio.Task[Any]) -> str:
    """The innermost line at which the task waits."""
    waiting: Any = task.get_coro()
    frame = None
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", getattr(waiting, "gi_frame", None)) or frame
        waiting = getattr(waiting, "cr_await", getattr(waiting, "gi_yieldfrom", None))
    if frame is None:
        return "not at any line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def _listing(loop: asyncio.AbstractEventLoop) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    return "".join(f"\n  {task.get_name()} waits at {_place(task)}" for task in tasks)


def _cancel_leftovers(loop: VirtualTimeLoop) -> str:
    """Cancel the remaining tasks; returns a list of them."""
    leftovers = asyncio.all_tasks(loop)
    if not leftovers:
        return ""
    listing = _listing(loop)
    for task in leftovers:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))
    return listing


def _run(loop: VirtualTimeLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    main = loop.create_task(coroutine, name="main")
    try:
        result = loop.run_until_complete(main)
    except BaseException:
        _cancel_leftovers(loop)
        raise
    leaked = _cancel_leftovers(loop)
    if leaked:
        raise LeakedTasks(f"the main coroutine ended, these tasks did not:{leaked}")
    if loop.unhandled:
        first = loop.unhandled[0]
        raise UnhandledFailure(str(first.get("message"))) from first.get("exception")
    return result


def run_virtual(
    main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]],
    *,
    seed: int | None = None,
    start: float = 0.0,
) -> T:
    """Run to the end on a new loop; fails on a deadlock, a leaked task or an unhandled failure."""
    loop = VirtualTimeLoop(seed=seed, start=start)
    try:
        asyncio.set_event_loop(loop)
        return _run(loop, main() if callable(main) else main)
    except BaseException as failure:
        if seed is not None:
            failure.add_note(f"seed={seed}")
        raise
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


def virtual_random() -> random.Random:
    """The seeded randomness of the running virtual loop."""
    return cast(VirtualTimeLoop, asyncio.get_running_loop()).random


def virtual_wall_clock(
    loop: asyncio.AbstractEventLoop | None = None, *, epoch_ms: int = SIMULATION_EPOCH_MS
) -> WallClock:
    """Milliseconds that pass with the time of the loop; by default the running loop."""
    timed = loop or asyncio.get_running_loop()
    return lambda: epoch_ms + round(timed.time() * 1000)
