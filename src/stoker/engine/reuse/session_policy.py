"""What a task stands on: a session that it shares with others as far as it may, or a given one."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from stoker.engine.reuse.isolation import Isolation


class SessionPolicy(Protocol):
    @property
    def may_have_workers(self) -> bool:
        """Python workers at the server that are the session's alone, and end with it."""
        ...

    @property
    def has_named_tables(self) -> bool:
        """The plan of a function of the task reads some, which the session may remember."""
        ...

    def choose(self, sharing: Isolation, set_up: Callable[[], None]) -> None:
        """`set_up` makes the task's settings in its session; called again in another one."""
        ...

    def settle(self, frame: Any) -> None:
        """Before the one action of the task, on this frame."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Around that action, if its answer has no data."""
        ...


class DedicatedSession:
    """A driver's own, or that of a runner which died: it stays as it is."""

    may_have_workers = True
    has_named_tables = True

    def choose(self, sharing: Isolation, set_up: Callable[[], None]) -> None:
        set_up()

    def settle(self, frame: Any) -> None:
        pass

    def writing(self) -> AbstractContextManager[None]:
        return nullcontext()
