"""What a task executor asks of a Spark engine.

Implementations: `connect` (shared warm Spark Connect server, a runner process for each task) and
the fake of `stoker.testing`. A task is one attempt of one region.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from stoker.core.graph import JobGraph
from stoker.core.ids import AttemptId, RegionId
from stoker.core.regions import Region
from stoker.core.results import AttemptOutcome, Progress
from stoker.core.states import ExecutionState


@dataclass(frozen=True, kw_only=True)
class Task:
    graph: JobGraph
    region: Region
    attempt: AttemptId
    attempt_number: int
    directory: Path
    """The attempt's own working directory; exists, is removed by the task executor afterwards."""
    materialized_root: str
    """URL below which the job's materialized vertices stand, one directory each."""
    checkpoint_root: str
    """URL below which the job's streaming checkpoints stand, one directory for each region."""
    artifacts: Mapping[str, Path] = field(default_factory=dict)
    """Artifact name to local file, already checked."""
    lease_until: float = math.inf
    """By the loop's time: its process ends it before, unless the lease is renewed."""
    lease_margin: float = 0.0
    """Seconds before that, at which it begins to end."""

    @property
    def region_id(self) -> RegionId:
        return self.region.id


@dataclass(frozen=True)
class StateChanged:
    """INITIALIZING (user code loads, plan is built) or RUNNING."""

    state: ExecutionState


@dataclass(frozen=True)
class Progressed:
    progress: Progress


@dataclass(frozen=True)
class Finished:
    """The work has ended well: nothing decides about the outcome any more.

    What is left of it does no work any more and is being cleared away; `RunningTask.outcome` tells
    that it is gone.
    """

    outcome: AttemptOutcome


TaskEvent = StateChanged | Progressed | Finished
Listener = Callable[[TaskEvent], None]
"""Called on the loop that launched the task, in order."""


class EngineState(Enum):
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    BROKEN = "broken"


class RunningTask(Protocol):
    def renew_lease(self, until: float) -> None:
        """The task may go on until then, by the loop's time; moments of the past do no harm."""
        ...

    async def outcome(self) -> AttemptOutcome:
        """Wait for the end. Never raises for the task's own failure; may be awaited many times."""
        ...

    async def cancel(self) -> None:
        """Interrupt Spark's work; if that does not end the task within the grace time, kill it.

        Returns when the task's process and Spark's work are proven gone. The outcome is CANCELED
        unless the task had ended before. Calling again is harmless.
        """
        ...


class Engine(Protocol):
    @property
    def state(self) -> EngineState: ...

    @property
    def description(self) -> Mapping[str, str]:
        """Facts for people: Spark version, master, web UI address, server pid, heap."""
        ...

    async def wait_until_ready(self) -> None:
        """Return when a task would begin at once; StartupFailed when the engine will not start."""
        ...

    async def launch(self, task: Task, listener: Listener) -> RunningTask:
        """Start the task. While the engine is still starting this waits for it.

        Raises StokerError (StartupFailed, Unavailable) when the engine cannot run it at all; then
        nothing was started.
        """
        ...

    async def close(self) -> None:
        """End every task, runner and server; nothing of the engine outlives this."""
        ...
