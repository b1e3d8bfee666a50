"""Running tasks on the engine, from fetching the artifacts to recording the outcome.

The outcome is recorded in the storage before it is reported. It then survives this task
executor, and every later job master reads the same outcome.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

import msgspec

from stoker.aio.clock import WallClock
from stoker.aio.log_context import bind_log_fields
from stoker.aio.scope import TaskScope
from stoker.blob.cache import BlobCache
from stoker.blob.transfer import OffLoop, inline
from stoker.core.errors import StokerError, Unavailable
from stoker.core.failpoints import failpoint
from stoker.core.ids import AttemptId, BlobKey, ResourceId
from stoker.core.regions import regions_of
from stoker.core.results import AttemptOutcome, Failure
from stoker.core.states import ExecutionState
from stoker.engine.contract import (
    Engine,
    Finished,
    Progressed,
    RunningTask,
    StateChanged,
    Task,
    TaskEvent,
)
from stoker.gateways.leases import LeaseOptions
from stoker.gateways.taskexecutor import MOVED
from stoker.ha.keys import rows_of_attempt
from stoker.ha.stores.storage_records import OutcomeStore
from stoker.metrics.catalogue import TASKS_ENDED
from stoker.metrics.registry import MetricGroup, unread_metrics
from stoker.security.redaction import redact_failure, secret_values_of
from stoker.storage.contract import Storage
from stoker.storage.room import CheckRoom, no_limit
from stoker.taskexecutor.attempt_files import AttemptFiles, AttemptLogs
from stoker.taskexecutor.held_task import HeldTask
from stoker.taskexecutor.stream_metrics import StreamMetrics

log = logging.getLogger(__name__)

RECORD_RETRY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class TaskServices:
    engine: Engine
    blobs: BlobCache
    storage: Storage
    outcomes: OutcomeStore
    wall_clock: WallClock
    work_dir: Path
    log_dir: Path
    off_loop: OffLoop = inline
    metrics: MetricGroup = field(default_factory=unread_metrics)
    resource_id: ResourceId | None = None
    """Id to name in outcomes, which may be read after the task executor is gone."""
    check_room_for_logs: CheckRoom = no_limit


class TaskRuns:
    def __init__(
        self,
        services: TaskServices,
        scope: TaskScope,
        on_change: Callable[[HeldTask], None],
        lease: LeaseOptions,
    ) -> None:
        self._services = services
        self._lease = lease
        self._scope = scope
        self._on_change = on_change
        self._ended = services.metrics.counter(TASKS_ENDED)
        self._files = AttemptFiles(services.work_dir, services.log_dir, services.off_loop)
        self.logs = AttemptLogs(
            services.work_dir,
            services.log_dir,
            services.storage,
            services.off_loop,
            services.check_room_for_logs,
        )

    async def prepare(self) -> None:
        """Archive the logs that a previous instance left; runs before the first task."""
        await self._files.archive_leftovers()

    def start(self, held: HeldTask) -> None:
        held.state_at = self._services.wall_clock()
        self._scope.spawn(f"task {held.attempt}", self._run(held))

    def cancel(self, held: HeldTask, reason: str) -> None:
        if held.cancel_reason is not None or held.outcome is not None:
            return
        held.cancel_reason = reason
        log.info("cancelling attempt %s: %s", held.attempt, reason)
        if held.running is not None:
            self._scope.spawn(f"cancel {held.attempt}", _cancel(held.attempt, held.running))
        elif held.launching is not None:
            held.launching.cancel()

    async def _run(self, held: HeldTask) -> None:
        bind_log_fields(job=held.job_id, attempt=held.attempt)
        graph = held.deployment.graph
        with self._services.metrics.group(
            job_id=graph.job_id, job_name=graph.name, region=held.deployment.region
        ) as metrics:
            ended = await self._outcome(held, metrics)
        held.over.set()
        _, has_logs = await asyncio.gather(
            held.recording or self._record_and_report(self._final_outcome(ended, held), held),
            self._files.archive(held.job_id, held.attempt),
        )
        if has_logs:
            await self.logs.copy_to_storage(held.job_id, held.attempt)

    def _final_outcome(self, outcome: AttemptOutcome, held: HeldTask) -> AttemptOutcome:
        return msgspec.structs.replace(
            _without_secrets(_with_cancel_reason(_discard_when_late(outcome, held), held), held),
            number=held.deployment.number,
            task_executor=self._services.resource_id,
        )

    def _on_finished(self, outcome: AttemptOutcome, held: HeldTask) -> None:
        """Record and report a finished task while the engine still cleans up after it."""
        decided = self._final_outcome(outcome, held)
        if decided.state is ExecutionState.FINISHED:
            recording = self._record_and_report(decided, held)
            held.recording = self._scope.spawn(f"record {held.attempt}", recording)

    async def _record_and_report(self, outcome: AttemptOutcome, held: HeldTask) -> None:
        outcome = await self._write_outcome(outcome)
        held.progress = outcome.progress
        held.outcome = outcome
        held.recorded.set()
        log.info("attempt %s of %s is %s", held.attempt, held.deployment.region, outcome.state)
        self._ended.increment(outcome.state.value)
        self._on_change(held)

    async def _outcome(self, held: HeldTask, metrics: MetricGroup) -> AttemptOutcome:
        if held.deployment.stopped:
            return held.make_outcome(ExecutionState.FINISHED, self._services.wall_clock())
        try:
            held.running = await self._launch_or_cancel(held, metrics)
            if held.running is None:
                return held.make_outcome(ExecutionState.CANCELED, self._services.wall_clock())
            # The lease may have been renewed while the launch was waiting for the engine.
            held.running.renew_lease(held.lease_until)
            failpoint("task.after-launch")
            if held.cancel_reason is not None:
                self._scope.spawn(f"cancel {held.attempt}", _cancel(held.attempt, held.running))
            return await held.running.outcome()
        # A failure of one job must not harm the other jobs on this task executor.
        except Exception as error:
            failure = Failure(
                error=type(error).__name__,
                message=str(error),
                retriable=not isinstance(error, StokerError) or error.status >= 500,
            )
            return held.make_outcome(ExecutionState.FAILED, self._services.wall_clock(), failure)

    async def _launch_or_cancel(self, held: HeldTask, metrics: MetricGroup) -> RunningTask | None:
        """Launch the task; None if it was cancelled first, as fetching may take minutes."""
        if held.cancel_reason is not None:
            return None
        held.launching = asyncio.create_task(
            self._launch(held, metrics), name=f"launch {held.attempt}"
        )
        try:
            await asyncio.wait([held.launching])
        finally:
            if not held.launching.done():
                held.launching.cancel()
                await asyncio.wait([held.launching])
        return None if held.launching.cancelled() else held.launching.result()

    async def _launch(self, held: HeldTask, metrics: MetricGroup) -> RunningTask:
        task = await self._prepare(held, self._files.make_directory(held.attempt))
        stream = StreamMetrics(metrics) if task.region.streaming else None
        failpoint("task.before-launch")
        return await self._services.engine.launch(task, self._listener(held, stream))

    async def _prepare(self, held: HeldTask, directory: Path) -> Task:
        deployment = held.deployment
        graph = deployment.graph
        regions = {region.id: region for region in regions_of(graph)}
        artifacts = {
            artifact.name: await self._services.blobs.get(
                graph.job_id, artifact.key or BlobKey(artifact.sha256), name=artifact.name
            )
            for artifact in graph.artifacts
        }
        root = f"jobs/{graph.job_id}"
        return Task(
            graph=graph,
            region=regions[deployment.region],
            attempt=deployment.attempt,
            attempt_number=deployment.number,
            directory=directory,
            materialized_root=self._services.storage.url(f"{root}/materialized"),
            checkpoint_root=self._services.storage.url(f"{root}/checkpoints"),
            rows_root=self._services.storage.url(rows_of_attempt(graph.job_id, deployment.attempt)),
            artifacts=artifacts,
            lease_until=held.lease_until,
            lease_margin=self._lease.margin.total_seconds(),
            owner=deployment.owner,
        )

    def _listener(
        self, held: HeldTask, stream: StreamMetrics | None
    ) -> Callable[[TaskEvent], None]:
        def listen(event: TaskEvent) -> None:
            match event:
                case StateChanged(state):
                    held.state, held.state_at = state, self._services.wall_clock()
                    held.state_since = asyncio.get_running_loop().time()
                case Progressed(progress):
                    held.progress = progress
                    if stream is not None:
                        stream.note(progress)
                case Finished(outcome):
                    self._on_finished(outcome, held)
                    return
                case _:
                    assert_never(event)
            self._on_change(held)

        return listen

    async def _write_outcome(self, outcome: AttemptOutcome) -> AttemptOutcome:
        """Try until the outcome is on record; returns the outcome on record, the first written."""
        while True:
            try:
                return await self._services.outcomes.write(outcome)
            except Unavailable as error:
                log.warning("outcome of %s not on record yet: %s", outcome.attempt, error)
                await asyncio.sleep(RECORD_RETRY_SECONDS)


async def _cancel(attempt: AttemptId, running: RunningTask) -> None:
    try:
        await running.cancel()
    except StokerError as error:
        log.error("attempt %s could not be cancelled: %s", attempt, error)


def _discard_when_late(outcome: AttemptOutcome, held: HeldTask) -> AttemptOutcome:
    """Turn FINISHED into CANCELED if it came after the lease, for example after a freeze.

    Another attempt may have started meanwhile.
    """
    is_late = asyncio.get_running_loop().time() >= held.lease_until
    if not is_late or outcome.state is not ExecutionState.FINISHED:
        return outcome
    held.cancel_reason = held.cancel_reason or "its lease has run out"
    return msgspec.structs.replace(outcome, state=ExecutionState.CANCELED)


def _without_secrets(outcome: AttemptOutcome, held: HeldTask) -> AttemptOutcome:
    """Mask what the failure quotes of the job's secrets, before it is recorded anywhere.

    Only here all of them are known: the options of sources and the environment of a program are
    not among the details of a job.
    """
    if outcome.failure is None:
        return outcome
    failure = redact_failure(outcome.failure, secret_values_of(held.deployment.graph))
    return msgspec.structs.replace(outcome, failure=failure)


def _with_cancel_reason(outcome: AttemptOutcome, held: HeldTask) -> AttemptOutcome:
    """Add the reason of the cancellation, since the job master may not be the one that asked."""
    reason = held.cancel_reason
    if outcome.state is not ExecutionState.CANCELED or outcome.failure is not None or not reason:
        return outcome
    failure = Failure(
        error="AttemptMoved" if held.is_moving else "AttemptCancelled",
        message=f"ended by its task executor: {reason}",
        labels={"cause": MOVED} if held.is_moving else {},
    )
    return msgspec.structs.replace(outcome, failure=failure)
