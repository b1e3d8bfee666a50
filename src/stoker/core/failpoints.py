"""Failpoints: named places between the steps of a protocol, where tests make a process fail or die.

A protocol is right only if a crash between any two of its steps does no harm. So the moments
before and after each step have names, and tests crash at every one of them and check the recovery.

A failpoint does nothing unless it is armed: by `armed()` in the same process, or by the variable
`STOKER_FAILPOINT=name` (or `name:3` for the third hit), which ends the process like `kill -9`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

FAILPOINTS: Final = frozenset(
    {
        "election.before-raising-epoch",
        "election.after-raising-epoch",
        "publication.before-write",
        "publication.after-write",
        "job-graphs.before-content",
        "job-graphs.before-record",
        "job-graphs.after-record",
        "job-graphs.before-removing-record",
        "job-graphs.before-removing-content",
        "job-graphs.after-removing-content",
        "job-results.before-content",
        "job-results.before-record",
        "job-results.after-record",
        "job-results.before-marking-clean",
        "job-results.after-marking-clean",
        "job-results.before-pruning-record",
        "job-results.before-pruning-content",
        "job-results.before-pruning-rows",
        "job-results.after-pruning-content",
        "cancellations.before-record",
        "cancellations.after-record",
        "attempts.before-record",
        "attempts.after-record",
        "deployment.before-submitting",
        "deployment.after-submitting",
        "slots.before-keeping",
        "slots.after-keeping",
        "task.before-launch",
        "task.after-launch",
        "task.before-outcome-is-told",
        "task.after-outcome-is-acknowledged",
        "cancel.before-asking",
        "cancel.after-asking",
        "outcomes.before-content",
        "outcomes.after-content",
    }
)
"""Reached whatever the engine is."""

RUNNER_FAILPOINTS: Final = frozenset(
    {
        "publishing.before-staging",
        "publishing.after-staging",
        "publishing.before-record",
        "publishing.after-record",
        "publishing.before-a-move",
        "publishing.after-a-move",
        "publishing.before-removing-replaced",
        "publishing.before-removing-staged",
        "publishing.after-removing-staged",
        "materialized.before-content",
        "materialized.before-manifest",
        "materialized.after-manifest",
        "state-plan.before-publishing",
        "sink-log.before-a-batch",
        "lease.before-ending",
        "lease.before-killing",
    }
)
"""Reached only in processes of a real engine: runners, classic drivers and watchdogs."""

REST_FAILPOINTS: Final = frozenset(
    {"programs.before-entry", "programs.after-removing-entry", "programs.before-sweeping"}
)
"""Reached only by REST requests about uploaded programs."""

DRIVER_FAILPOINTS: Final = frozenset(
    {
        "driver.before-launch",
        "driver.after-launch",
        "driver.before-ending",
        "environment.before-publishing",
        "environment.after-publishing",
    }
)
"""Reached only on the classic engine."""

ENGINE_FAILPOINTS: Final = frozenset(
    {
        "server.before-launch",
        "server.after-launch",
        "server.before-stop",
        "runner.before-kill",
        "takeover.before-attaching",
        "takeover.after-attaching",
        "uninterruptible-tasks.before-killing-the-server",
        "uninterruptible-tasks.after-killing-the-server",
        "recycling.before-replacing",
        "recycling.after-replacing",
    }
)
"""Reached only on the connect engine, in the task executor."""

SAVEPOINT_FAILPOINTS: Final = frozenset(
    {
        "savepoints.before-record",
        "savepoints.after-record",
        "savepoint.before-pins",
        "savepoint.after-pins",
        "savepoint.before-a-copy",
        "savepoint.before-manifest",
        "savepoint.after-manifest",
        "savepoint.before-removing-pins",
        "restore.before-a-copy",
        "restore.before-record",
        "restore.after-record",
        "stop.before-record",
        "stop.after-record",
        "dispose.before-manifest",
        "dispose.after-manifest",
    }
)
"""Between the steps of taking, restoring and disposing of a savepoint."""

REPLACEMENT_FAILPOINTS: Final = frozenset(
    {
        "replacements.before-content",
        "replacements.before-record",
        "replacements.after-record",
        "replacements.before-phase",
        "replacements.after-phase",
        "replacements.before-stop",
        "replacements.before-division",
        "replacements.after-division",
        "replacements.before-submission",
        "replacements.after-submission",
        "replacements.before-cancel",
        "replacements.before-removing-record",
        "replacements.before-removing-content",
    }
)
"""Between the steps of replacing a running job by another version of it."""

PROVIDER_FAILPOINTS: Final = frozenset(
    {"provider.before-start", "provider.after-start", "provider.before-stop"}
)
"""Reached only where a master starts task executors itself."""

EVENT_FAILPOINTS: Final = frozenset(
    {
        "events.before-content",
        "events.before-record",
        "events.after-record",
        "events.before-forgetting",
        "events.before-removing-content",
        "events.after-removing-content",
        "events.before-settings",
        "events.after-settings",
    }
)
"""Between the writes of the event log."""

SHUTDOWN_FAILPOINTS: Final = frozenset(
    {
        "shutdown.before-record",
        "shutdown.after-record",
        "shutdown.before-over",
        "shutdown.after-over",
        "shutdown.before-forgetting",
        "shutdown.after-forgetting",
    }
)
"""Reached only when a whole cluster is shut down."""

_ALL: Final = (
    PROVIDER_FAILPOINTS
    | SHUTDOWN_FAILPOINTS
    | DRIVER_FAILPOINTS
    | EVENT_FAILPOINTS
    | ENGINE_FAILPOINTS
    | FAILPOINTS
    | RUNNER_FAILPOINTS
    | REST_FAILPOINTS
    | SAVEPOINT_FAILPOINTS
    | REPLACEMENT_FAILPOINTS
)

ENVIRONMENT_VARIABLE: Final = "STOKER_FAILPOINT"
KILLED: Final = 137
"""The exit status that a shell shows for a process killed by SIGKILL."""

OnHit = Callable[[], None]
"""Called at an armed failpoint: it may raise, record the hit, or return."""


class UnknownFailpoint(LookupError):
    pass


_armed: dict[str, OnHit] = {}


def failpoint(name: str) -> None:
    _check_listed(name)
    on_hit = _armed.get(name)
    if on_hit is not None:
        on_hit()


@contextmanager
def armed(name: str, on_hit: OnHit) -> Iterator[None]:
    """Call `on_hit` whenever the failpoint is reached inside the block."""
    _check_listed(name)
    before = _armed.get(name)
    _armed[name] = on_hit
    try:
        yield
    finally:
        if before is None:
            del _armed[name]
        else:
            _armed[name] = before


def _check_listed(name: str) -> None:
    if name not in _ALL:
        raise UnknownFailpoint(f"failpoint {name!r} is not listed in stoker.core.failpoints")


def arm_from_environment(setting: str | None) -> None:
    """Arm the failpoint that the variable names. A malformed setting raises at once."""
    if not setting:
        return
    name, _, count = setting.partition(":")
    if name not in _ALL:
        raise UnknownFailpoint(f"{ENVIRONMENT_VARIABLE}={setting}: no failpoint {name!r}")
    remaining = int(count) if count else 1

    def die_at_the_last() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining <= 0:
            os._exit(KILLED)

    _armed[name] = die_at_the_last


arm_from_environment(os.environ.get(ENVIRONMENT_VARIABLE))
