"""Savepoints of a running job, taken while it continues or in order to stop it.

A job that is stopped must not end without its savepoint, and must not process a batch that the
savepoint lacks. The order is: suspend all streams at a batch boundary, take the savepoint, check
that every stream is still suspended, record the stop, finish the streams. From the record on every
leader drives the job to its end; before it, a failure resumes the streams.
"""

import asyncio
import logging
from importlib.metadata import PackageNotFoundError, version

from stoker import __version__
from stoker.blob.keys import path_of
from stoker.core.checkpoints import CheckpointKind, SavepointRequest, SavepointTaken
from stoker.core.errors import (
    CannotTakeSavepoint,
    Conflict,
    SavepointFailed,
    StokerError,
)
from stoker.core.graph import JobGraph
from stoker.core.ids import BlobKey, RegionId
from stoker.core.states import ExecutionState, JobStatus
from stoker.jobmaster.job import JobDriver
from stoker.jobmaster.savepoints.records import (
    SavepointsRecord,
    StopRecord,
    record_savepoints,
    record_stop,
)
from stoker.jobmaster.savepoints.stopping import Streams, run_in_job_scope, streaming_regions
from stoker.metrics.catalogue import SAVEPOINT_DURATION, SAVEPOINT_SIZE, SAVEPOINTS
from stoker.savepoints.locations import locate
from stoker.savepoints.take import SavepointHeader, SavepointWriter
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

STOPPED = "stopped"
"""Order id for a stop whose own is not on record: another savepoint, which began just before, may
have been the last to write the record. The streams then end at a later batch boundary."""


class JobSavepoints:
    def __init__(self, job: JobDriver, storage: Storage) -> None:
        self._job = job
        self._storage = storage
        self._history = job.checkpoints
        self._services = job.services.savepoints
        self._stopping = False
        metrics = job.services.metrics
        self._now = metrics.now
        self._outcomes = metrics.counter(SAVEPOINTS)
        self._durations = metrics.histogram(SAVEPOINT_DURATION)
        self._sizes = metrics.histogram(SAVEPOINT_SIZE)
        self._resumed = asyncio.Event()
        """Set when no stream is suspended any more by the order of a previous master."""
        self._resumed.set()

    async def perform(self, request: SavepointRequest) -> SavepointTaken:
        """Take a savepoint. After an error the job continues.

        A stop can still fail when its savepoint is complete; that savepoint is not removed.
        """
        self._check(request)
        directory = self._services.options.directory_for(request.directory)
        kind = CheckpointKind.STOP_SAVEPOINT if request.stop else CheckpointKind.SAVEPOINT
        savepoint_id = request.savepoint_id or self._job.services.ids.nonce()[:12]
        self._history.savepoint_started(savepoint_id, kind, self._job.now)
        label = "stop" if request.stop else "savepoint"
        began = self._now()
        self._stopping = self._stopping or request.stop
        try:
            taken: SavepointTaken = await run_in_job_scope(
                self._job,
                f"savepoint {savepoint_id}",
                lambda: self._begin(savepoint_id, directory, request),
            )
        except StokerError as error:
            self._stopping = self._stopping and not request.stop
            self._history.savepoint_failed(savepoint_id, error.message, self._job.now)
            self._outcomes.increment(label, "failed")
            log.warning("job %s: no savepoint: %s", self._job.job_id, error)
            raise
        self._history.savepoint_completed(savepoint_id, taken, self._job.now)
        self._outcomes.increment(label, "completed")
        self._durations.observe(self._now() - began, label)
        self._sizes.observe(taken.size_bytes, label)
        log.info("job %s: savepoint %s", self._job.job_id, taken.path)
        return taken

    def _check(self, request: SavepointRequest) -> None:
        job = self._job
        if not streaming_regions(job):
            raise CannotTakeSavepoint(
                f"job {job.job_id} is a batch job and has no state to save; only streaming jobs "
                "take savepoints"
            )
        if job.graph.status is not JobStatus.RUNNING:
            raise CannotTakeSavepoint(
                f"job {job.job_id} is {job.graph.status}, and a savepoint needs it RUNNING; try "
                "again when it is"
            )
        begun = (ExecutionState.RUNNING, ExecutionState.FINISHED)
        idle = [run.region.id for run in streaming_regions(job) if run.current.state not in begun]
        if idle:
            raise CannotTakeSavepoint(f"not all queries run yet: {', '.join(idle)}; try again")
        if self._stopping:
            raise Conflict(f"job {job.job_id} is being stopped with a savepoint already")

    async def _begin(
        self, savepoint_id: str, directory: str, request: SavepointRequest
    ) -> SavepointTaken:
        if request.stop:
            await self._resumed.wait()
        order = savepoint_id if request.stop else None
        record = SavepointsRecord(begun=self._history.savepoints_started, stop_order=order)
        await record_savepoints(self._storage, self._job.job_id, record)
        work = self._stop if request.stop else self._take
        return await work(savepoint_id, directory, request)

    async def _take(
        self, savepoint_id: str, directory: str, request: SavepointRequest
    ) -> SavepointTaken:
        job = self._job
        name = f"savepoint-{job.job_id[:6]}-{savepoint_id}"
        location = locate(f"{directory.rstrip('/')}/{name}", self._services.open_storage)
        header = SavepointHeader(
            savepoint_id=savepoint_id,
            kind="savepoint",
            at=job.now,
            stoker_version=__version__,
            spark_version=installed_spark(),
            stopped=request.stop,
            owner=job.graph.owner,
        )
        graph = job.graph.graph
        writer = SavepointWriter(self._storage, graph, location, header, artifacts_of(graph))
        limit = self._services.options.timeout.total_seconds()
        try:
            async with asyncio.timeout(limit):
                manifest = await writer.write(_regions(job))
        except TimeoutError:
            raise SavepointFailed(
                f"the savepoint was not done within {limit:g} s "
                "(execution.checkpointing.timeout); the job continues"
            ) from None
        return SavepointTaken(
            path=location.url,
            size_bytes=manifest.size,
            files=len(manifest.files),
            batches=manifest.batches,
        )

    async def _stop(
        self, savepoint_id: str, directory: str, request: SavepointRequest
    ) -> SavepointTaken:
        """Take a savepoint of the suspended streams, then let the job end."""
        job, options = self._job, self._services.options
        limit = request.limit_seconds or options.stop_limit.total_seconds()
        streams = Streams(job, savepoint_id)
        await streams.suspend(limit, options.timeout.total_seconds() + limit)
        try:
            taken = await self._take(savepoint_id, directory, request)
            await streams.require_suspended()
            record = StopRecord(path=taken.path, at=job.now)
            await record_stop(self._storage, job.job_id, record)
        except StokerError:
            await streams.resume()
            raise
        job.stopped = True
        job.scope.spawn("finish", streams.finish())
        return taken

    def finish_stopped(self, record: StopRecord, order: str | None) -> None:
        """Finish a stop whose savepoint was recorded by a previous leader."""
        log.info("the job was stopped with savepoint %s", record.path)
        self._stopping = self._job.stopped = True
        self._job.scope.spawn("finish", Streams(self._job, order or STOPPED).finish())

    def resume_suspended(self, order: str) -> None:
        """Resume streams that a previous leader suspended without recording a savepoint."""
        self._resumed.clear()
        self._job.scope.spawn("resume suspended streams", self._resume_suspended(order))

    async def _resume_suspended(self, order: str) -> None:
        await Streams(self._job, order).release()
        log.info("the job continues: its stop was not completed")
        self._resumed.set()


def _regions(job: JobDriver) -> list[RegionId]:
    return [run.region.id for run in streaming_regions(job)]


def artifacts_of(graph: JobGraph) -> dict[str, str]:
    """Paths of the job's files in the storage, by checksum."""
    return {
        artifact.sha256: path_of(graph.job_id, artifact.key or BlobKey(artifact.sha256))
        for artifact in graph.artifacts
    }


def installed_spark() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""
