"""A session that shares what it can with those of other jobs, until its task needs its own."""

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql.connect.client import SparkConnectClient

from stoker.engine.reuse.isolation import Isolation
from stoker.engine.reuse.plans import names_a_table, runs_inside_spark
from stoker.engine.reuse.templates import dedicated_template, restart_as_copy
from stoker.engine.runner.one_call import single_call
from stoker.osproc.process_tree import children_of

_BRINGS_SOMETHING = frozenset(
    {"AddArtifacts", "AnalyzePlan", "ArtifactStatus", "CloneSession", "Config", "ExecutePlan"}
)
"""Calls after which the session is not as it was, or in which code of the job may run."""


class SharedSession:
    """`template`: the session that it is a copy of, and shares the driver's classes with.

    While nothing is decided, the task's own code may say nothing to the server in the shared
    session: its first word brings it into one of its own.
    """

    def __init__(self, client: Any, template: str) -> None:
        self._client = client
        self._template = template
        self._once = threading.RLock()
        self._is_open = False
        self._is_own = False
        self._has_named_tables = False
        self._stubs: dict[Any, Any] = {}
        """Of those who speak to the server, while what they say is watched."""
        self._threads: frozenset[threading.Thread] = frozenset()
        """Those that were there before the task's code."""
        self._set_up: Callable[[], None] = lambda: None
        self._unnotice: Callable[[], None] = lambda: None

    @property
    def may_have_workers(self) -> bool:
        """Whoever shares it has brought no code."""
        return self._is_own

    @property
    def has_named_tables(self) -> bool:
        return self._has_named_tables

    def choose(self, sharing: Isolation, set_up: Callable[[], None]) -> None:
        if sharing is Isolation.OWN:
            self._begin_own()
        set_up()
        if sharing is Isolation.OPEN:
            self._set_up = set_up
            self._watch()

    def settle(self, frame: Any) -> None:
        with self._once:
            if not self._is_open:
                return
            plan = frame._plan.to_proto(self._client)
            plain = self._is_alone() and runs_inside_spark(plan)
            self._has_named_tables = names_a_table(plan)
            # To make the plan may have been the first word.
            if self._is_open and not plain:
                self._need_own()
            elif self._is_open:
                self._unwatch()

    def writing(self) -> AbstractContextManager[None]:
        return single_call(self._client)

    def _is_alone(self) -> bool:
        """Nothing that the task's code has started could speak to the server meanwhile."""
        return self._threads.issuperset(threading.enumerate()) and not children_of(os.getpid())

    def _watch(self) -> None:
        self._is_open = True
        self._threads = frozenset(threading.enumerate())
        # Requests would name it, and it may not be the one that they reach.
        self._client._server_session_id = None
        for speaker in (self._client, self._client._artifact_manager):
            self._stubs[speaker] = speaker._stub
            speaker._stub = _WatchedStub(speaker._stub, self._need_own)
        self._unnotice = _when_another_client_is_made(self._need_own)

    def _unwatch(self) -> None:
        self._is_open = False
        for speaker, stub in self._stubs.items():
            speaker._stub = stub
        self._unnotice()

    def _need_own(self) -> None:
        with self._once:
            if not self._is_open:
                return
            self._unwatch()
            self._begin_own()
            self._set_up()
            self._client._server_session_id = None

    def _begin_own(self) -> None:
        self._is_own = True
        restart_as_copy(self._client, dedicated_template(self._template))


class _WatchedStub:
    def __init__(self, stub: Any, need_own: Callable[[], None]) -> None:
        self._stub = stub
        self._need_own = need_own

    def __getattr__(self, name: str) -> Any:
        if name in _BRINGS_SOMETHING:
            self._need_own()
        return getattr(self._stub, name)


def _when_another_client_is_made(act: Callable[[], None]) -> Callable[[], None]:
    """For the same session, by the URL in the environment; nobody watches what that one says.

    Gives how to undo it.
    """
    made: Any = SparkConnectClient.__init__

    def make(self: Any, *args: Any, **named: Any) -> None:
        act()
        made(self, *args, **named)

    def undo() -> None:
        SparkConnectClient.__init__ = made  # type: ignore[method-assign]

    SparkConnectClient.__init__ = make  # type: ignore[method-assign]
    return undo
