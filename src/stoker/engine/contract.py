"""The interface between a task executor and the engine that runs its tasks.

A task is one attempt of one region. Two attempts of a region must never overlap, so an engine has
to be certain of the end of a task: it reports an outcome only when the task's processes and its
work in Spark are gone, or, for work that has ended well, when nothing can change the outcome.

Implementations: `connect` (a shared warm Spark Connect server, a runner process for each task),
`classic` (a Spark driver for each task) and the fake of `stoker.testing`.
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
    """Working directory of the attempt, created and removed by the task executor."""
    materialized_root: str
    """URL of the directory with the job's materialized vertices, one directory each."""
    checkpoint_root: str
    """URL of the directory with the job's streaming checkpoints, one directory for each region."""
    rows_root: str = ""
    """URL of the directory for the rows that the queries of this attempt return."""
    artifacts: Mapping[str, Path] = field(default_factory=dict)
    """Local file of each artifact by its name, already verified."""
    lease_until: float = math.inf
    """End of the lease in the loop's time; the task's process ends before, unless it is renewed."""
    lease_margin: float = 0.0
    """Seconds before `lease_until` at which the task begins to end."""
    owner: str = ""
    """Owner of the job. Nothing that has run a task of one owner runs one of another."""

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
    """The work has ended well and its outcome is final.

    Only clean-up is left, which does none of the task's work. `RunningTask.outcome` returns when
    that is over as well.
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


@dataclass(frozen=True, kw_only=True)
class JvmFigures:
    """What a JVM uses, as it says itself; empty for what it does not tell."""

    heap_bytes: Mapping[str, float] = field(default_factory=dict)
    """By used, committed and max."""
    gc_seconds: Mapping[str, float] = field(default_factory=dict)
    """Time spent so far, by the name of the collector."""
    cpu_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class EngineFigures:
    warm_runners: int = 0
    warm_drivers: int = 0
    server_pid: int | None = None
    zygote_pid: int | None = None
    server: JvmFigures = field(default_factory=JvmFigures)


class RunningTask(Protocol):
    def renew_lease(self, until: float) -> None:
        """Let the task run until then, in the loop's time. A renewal never shortens the lease."""
        ...

    async def outcome(self) -> AttemptOutcome:
        """Wait for the end of the task. Never raises for its failure; may be awaited many times."""
        ...

    async def cancel(self) -> None:
        """Interrupt Spark's work; if that does not end the task within the grace time, kill it.

        Returns when the task's process and its work in Spark are proven gone. The outcome is
        CANCELED unless the task had ended before. A repeated call is harmless.
        """
        ...


class Engine(Protocol):
    @property
    def state(self) -> EngineState: ...

    @property
    def description(self) -> Mapping[str, str]:
        """Facts for people: Spark version, master, web UI address, server pid, heap."""
        ...

    @property
    def figures(self) -> EngineFigures:
        """What is known at this moment; nothing is measured by the call."""
        ...

    async def wait_until_ready(self) -> None:
        """Return when tasks can start at once; raise StartupFailed if the engine cannot start."""
        ...

    async def launch(self, task: Task, listener: Listener) -> RunningTask:
        """Start the task, after the engine itself has started.

        Raises StokerError (StartupFailed, Unavailable) when the engine cannot run the task at all;
        nothing was started then.
        """
        ...

    async def close(self) -> None:
        """End every task, runner and server; return when nothing of the engine is left."""
        ...
