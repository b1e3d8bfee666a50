"""Which Spark session a task runs in, and whether it is reused: the interface of this package.

`RegionExecution` calls the policy before and after it uses Spark. `DedicatedSession` is the policy
without reuse; `SharedSession` is the one with it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from stoker.engine.reuse.isolation import TaskDescription


class SessionPolicy(Protocol):
    @property
    def may_have_workers(self) -> bool:
        """Whether the server may run Python workers for this session, which end with it."""
        ...

    def judge(self, task: TaskDescription) -> bool:
        """Whether the task's code is known to leave nothing in the process.

        Called before any of that code is loaded: what runs later could answer for itself.
        """
        ...

    def select(self, task: TaskDescription, apply_settings: Callable[[], None]) -> None:
        """Choose the session before any code of the task runs.

        `apply_settings` makes the task's settings in the session. It is called again if the task
        moves to another session.
        """
        ...

    def before_action(self, frame: Any) -> None:
        """Called before the one action of the task, which runs on this frame."""
        ...

    @property
    def leaves_process_clean(self) -> bool:
        """Whether the process may run another task after the success of this one."""
        ...

    def empty_session(self, session: Any, views: Iterable[str], *, has_settings: bool) -> bool:
        """Drop the task's views from the session; return whether the next task may use it.

        Called after success, and only if the task leaves the process clean. `has_settings` tells
        whether the task changed settings.
        """
        ...


class DedicatedSession:
    """No reuse: a driver's only session, one taken over from a dead runner, or reuse switched off.

    Session and process end with the task.
    """

    may_have_workers = True
    leaves_process_clean = False

    def judge(self, task: TaskDescription) -> bool:
        return False

    def select(self, task: TaskDescription, apply_settings: Callable[[], None]) -> None:
        apply_settings()

    def before_action(self, frame: Any) -> None:
        pass

    def empty_session(self, session: Any, views: Iterable[str], *, has_settings: bool) -> bool:
        return False
