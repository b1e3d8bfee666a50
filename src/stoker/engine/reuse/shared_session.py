"""A session that shares the driver's class loader with other jobs, as long as its task may.

What a Python function of the job will do is unknown until it has run. While isolation is
UNDECIDED, none of its calls may reach the server in the shared session: the first call that could
bring code or change the session moves the task into a dedicated session, then proceeds. If no such
call is made, the plan of the task's one action decides.
"""

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import grpc
from pyspark.errors import PySparkException
from pyspark.sql.connect.client import SparkConnectClient

from stoker.core.graph import function_of
from stoker.engine.reuse.functions import only_describes_a_query
from stoker.engine.reuse.isolation import (
    Isolation,
    TaskDescription,
    changes_session,
    isolation_of,
)
from stoker.engine.reuse.plans import names_a_table, runs_inside_spark
from stoker.engine.reuse.templates import dedicated_template, restart_as_copy
from stoker.osproc.process_tree import children_of

_CALLS_THAT_CHANGE_THE_SESSION = frozenset(
    {"AddArtifacts", "AnalyzePlan", "ArtifactStatus", "CloneSession", "Config", "ExecutePlan"}
)
"""Calls that change the session, or in which code of the job may run."""


class SharedSession:
    """Session policy with reuse. `template` is the id of the session that this one copies."""

    def __init__(self, client: Any, template: str) -> None:
        self._client = client
        self._template = template
        self._lock = threading.RLock()
        self._task: TaskDescription | None = None
        """None until `select`."""
        self._is_code_harmless = False
        """As judged before any code of the task was loaded."""
        self._is_undecided = False
        self._is_dedicated = False
        self._has_named_tables = False
        """Whether the plan of a function names a table, which the session may remember."""
        self._stubs: dict[Any, Any] = {}
        """The original stubs of the objects that call the server, while their calls are watched."""
        self._threads_before: frozenset[threading.Thread] = frozenset()
        """Threads that existed before the task's code ran."""
        self._apply_settings: Callable[[], None] = lambda: None
        self._unwatch_new_clients: Callable[[], None] = lambda: None

    @property
    def may_have_workers(self) -> bool:
        return self._is_dedicated

    def judge(self, task: TaskDescription) -> bool:
        functions = map(function_of, map(task.graph.vertex, task.region.vertices))
        self._is_code_harmless = isolation_of(task) is not Isolation.DEDICATED and all(
            function is None or only_describes_a_query(function.payload) for function in functions
        )
        return self._is_code_harmless

    def select(self, task: TaskDescription, apply_settings: Callable[[], None]) -> None:
        self._task = task
        isolation = isolation_of(task)
        if isolation is Isolation.DEDICATED:
            self._start_dedicated()
        apply_settings()
        if isolation is Isolation.UNDECIDED:
            self._apply_settings = apply_settings
            self._watch()

    def before_action(self, frame: Any) -> None:
        with self._lock:
            if not self._is_undecided:
                return
            plan = frame._plan.to_proto(self._client)
            is_harmless = self._is_alone() and runs_inside_spark(plan)
            self._has_named_tables = names_a_table(plan)
            # Building the plan may itself have called the server, which decides.
            if self._is_undecided and not is_harmless:
                self._move_to_dedicated()
            elif self._is_undecided:
                self._unwatch()

    @property
    def leaves_process_clean(self) -> bool:
        return self._task is not None and self._is_code_harmless and not self._is_dedicated

    def empty_session(self, session: Any, views: Iterable[str], *, has_settings: bool) -> bool:
        assert self._task is not None
        vertices = map(self._task.graph.vertex, self._task.region.vertices)
        if has_settings or self._has_named_tables or any(map(changes_session, vertices)):
            return False
        session.clearProgressHandlers()
        try:
            for view in views:
                session.catalog.dropTempView(view)
        except (PySparkException, grpc.RpcError):
            return False
        return True

    def _is_alone(self) -> bool:
        """Whether the task's code left no thread or process that could still call the server."""
        return self._threads_before.issuperset(threading.enumerate()) and not children_of(
            os.getpid()
        )

    def _watch(self) -> None:
        self._is_undecided = True
        self._threads_before = frozenset(threading.enumerate())
        # Requests carry this id, and it would not match the session that they end up in.
        self._client._server_session_id = None
        for caller in (self._client, self._client._artifact_manager):
            self._stubs[caller] = caller._stub
            caller._stub = _WatchedStub(caller._stub, self._move_to_dedicated)
        self._unwatch_new_clients = _before_each_new_client(self._move_to_dedicated)

    def _unwatch(self) -> None:
        self._is_undecided = False
        for caller, stub in self._stubs.items():
            caller._stub = stub
        self._unwatch_new_clients()

    def _move_to_dedicated(self) -> None:
        with self._lock:
            if not self._is_undecided:
                return
            self._unwatch()
            self._start_dedicated()
            self._apply_settings()
            self._client._server_session_id = None

    def _start_dedicated(self) -> None:
        self._is_dedicated = True
        restart_as_copy(self._client, dedicated_template(self._template))


class _WatchedStub:
    def __init__(self, stub: Any, before_change: Callable[[], None]) -> None:
        self._stub = stub
        self._before_change = before_change

    def __getattr__(self, name: str) -> Any:
        if name in _CALLS_THAT_CHANGE_THE_SESSION:
            self._before_change()
        return getattr(self._stub, name)


def _before_each_new_client(act: Callable[[], None]) -> Callable[[], None]:
    """Call `act` whenever a client is made; returns the function that undoes this.

    The job's code can reach its session by the URL in the environment, through a client of its own,
    whose calls are not watched.
    """
    original: Any = SparkConnectClient.__init__

    def initialize(self: Any, *args: Any, **named: Any) -> None:
        act()
        original(self, *args, **named)

    def undo() -> None:
        SparkConnectClient.__init__ = original  # type: ignore[method-assign]

    SparkConnectClient.__init__ = initialize  # type: ignore[method-assign]
    return undo
