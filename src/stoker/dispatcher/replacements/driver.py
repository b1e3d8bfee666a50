"""Drives one replacement from the phase on record to its end.

`decide` chooses the next step; this module observes the jobs, does the step, and puts each new
phase on record. A step that may succeed later is retried; a step that is refused for good becomes
the `refusal`, from which `decide` chooses the way back.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Protocol, assert_never

import msgspec

from stoker.aio.latest import Latest
from stoker.blob.keys import path_of
from stoker.core.checkpoints import SavepointRequest
from stoker.core.errors import (
    Fenced,
    JobAlreadyEnded,
    JobNotFound,
    JobQuarantined,
    NotFound,
    SessionExpired,
    StokerError,
    UnusableSavepoint,
)
from stoker.core.failpoints import failpoint
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import BlobKey, JobId
from stoker.core.job_options import RETENTION, SHUFFLE_PARTITIONS
from stoker.core.replacements import Replacement, ReplacementKind, ReplacementPhase
from stoker.core.results import JobDetails
from stoker.dispatcher.replacements.decide import (
    AdvancePhase,
    CancelNewVersion,
    JobSnapshot,
    Observation,
    Repartition,
    StopOldVersion,
    StopProgress,
    SubmitNewVersion,
    SubmitOldVersion,
    WaitForChange,
    decide,
    snapshot_of,
)
from stoker.dispatcher.services import DispatcherServices
from stoker.gateways.dispatcher import SavepointStatus, Submitted
from stoker.ha.stores.replacements import ReplacementStore
from stoker.savepoints.copying import copy_file
from stoker.savepoints.locations import OpenStorage, SavepointLocation, locate, read_manifest
from stoker.savepoints.manifest import artifact_path
from stoker.savepoints.restore import saved_graph
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""Pause before the jobs are observed again."""
RETRY_SECONDS = 2.0
"""Pause after an error that a retry may overcome."""
BROKEN_RETRY_SECONDS = 30.0
"""Pause after an unexpected exception."""


class DispatcherActions(Protocol):
    """The calls that a replacement makes at the dispatcher; clients make the same calls."""

    async def submit_job(self, graph: JobGraph, owner: str = "") -> Submitted: ...

    def job_owner(self, job_id: JobId) -> str: ...

    async def job_details(self, job_id: JobId) -> JobDetails: ...

    async def cancel_job(self, job_id: JobId) -> None: ...

    def check_takes_savepoints(self, job_id: JobId) -> None: ...

    async def check_artifacts(self, graph: JobGraph) -> None: ...

    def trigger_savepoint(
        self, job_id: JobId, trigger_id: str, request: SavepointRequest
    ) -> None: ...

    async def savepoint_status(
        self, job_id: JobId, trigger_id: str, seconds: float
    ) -> SavepointStatus: ...


class ReplacementDriver:
    def __init__(
        self,
        plan: Replacement,
        fresh_order: str,
        *,
        store: ReplacementStore,
        services: DispatcherServices,
        dispatcher: DispatcherActions,
        on_phase: Callable[[Replacement], None],
    ) -> None:
        self.plan = Latest(plan)
        self._on_phase = on_phase
        self._fresh_order = fresh_order
        self._store = store
        self._services = services
        self._dispatcher = dispatcher
        self._repartitioned: str | None = None
        self._refusal: str | None = None
        self._phase_since = asyncio.get_running_loop().time()
        self._steady_since: float | None = None

    async def run(self) -> None:
        while not self.plan.value.phase.over:
            try:
                await self._step()
            except (Fenced, SessionExpired):
                raise
            except StokerError as error:
                log.warning("replacement %s: %s", self.plan.value.trigger_id, error)
                if isinstance(error, JobQuarantined):
                    # The job had no chance to run in this time.
                    self._phase_since = asyncio.get_running_loop().time()
                await asyncio.sleep(RETRY_SECONDS)
            # The border between one replacement and all jobs: a fault harms only this replacement.
            except Exception:
                log.exception("replacement %s failed unexpectedly", self.plan.value.trigger_id)
                await asyncio.sleep(BROKEN_RETRY_SECONDS)

    async def _step(self) -> None:
        plan = self.plan.value
        step = decide(plan, await self._observe(plan), self._fresh_order)
        match step:
            case WaitForChange():
                await asyncio.sleep(POLL_SECONDS)
            case AdvancePhase(plan=following):
                await self._advance(following)
            case StopOldVersion():
                self._stop(plan)
            case Repartition():
                await self._repartition(plan)
            case SubmitNewVersion():
                await self._submit(lambda: self._new_version(plan))
            case SubmitOldVersion():
                await self._submit(lambda: self._old_version(plan))
            case CancelNewVersion():
                await self._cancel(plan.new_id)
            case _:
                assert_never(step)

    async def _observe(self, plan: Replacement) -> Observation:
        now = asyncio.get_running_loop().time()
        new = await self._snapshot(plan.new_id)
        if plan.phase is ReplacementPhase.ENDING and new is not None:
            new = replace(new, retained=await self._best_origin(plan, new.retained))
        if plan.phase is ReplacementPhase.WATCHING and new is not None and new.runs:
            self._steady_since = now if self._steady_since is None else self._steady_since
        else:
            self._steady_since = None
        return Observation(
            in_phase_seconds=now - self._phase_since,
            steady_seconds=None if self._steady_since is None else now - self._steady_since,
            old=await self._snapshot(plan.job_id),
            new=new,
            restored=await self._snapshot(plan.back_id),
            stop=await self._stop_progress(plan),
            repartitioned=self._repartitioned,
            refusal=self._refusal,
        )

    async def _best_origin(self, plan: Replacement, retained: str | None) -> str | None:
        """The retained checkpoint if any query has committed a batch after the savepoint.

        Otherwise the savepoint is the better origin, because no other version has touched it.
        """
        if retained is None or plan.savepoint is None:
            return None
        before = await self._batches(plan.savepoint)
        after = await self._batches(retained)
        has_committed = any(batch > before.get(region, -1) for region, batch in after.items())
        return retained if has_committed else None

    async def _batches(self, path: str) -> dict[str, int]:
        try:
            manifest = await read_manifest(locate(path, self._services.savepoints.open_storage))
        except UnusableSavepoint as error:
            log.warning("%s", error)
            return {}
        return manifest.batches

    async def _snapshot(self, job_id: JobId) -> JobSnapshot | None:
        try:
            return snapshot_of(await self._dispatcher.job_details(job_id))
        except JobNotFound:
            return None

    async def _stop_progress(self, plan: Replacement) -> StopProgress | None:
        try:
            status = await self._dispatcher.savepoint_status(plan.job_id, plan.order, 0)
        except NotFound:
            return None
        if not status.done:
            return StopProgress()
        return StopProgress(is_done=True, failure=status.message if status.taken is None else None)

    async def _advance(self, following: Replacement) -> None:
        following = msgspec.structs.replace(following, changed=self._services.wall_clock())
        await self._store.put(following)
        before = self.plan.value
        if following.phase is not before.phase:
            log.info(
                "replacement of job %s (%s): %s %s",
                following.job_id,
                following.kind,
                following.phase,
                following.reason,
            )
            self._phase_since = asyncio.get_running_loop().time()
            self._refusal = None
            self._on_phase(following)
        self.plan.set(following)

    def _stop(self, plan: Replacement) -> None:
        failpoint("replacements.before-stop")
        self._dispatcher.trigger_savepoint(
            plan.job_id,
            plan.order,
            SavepointRequest(directory=plan.directory, stop=True, savepoint_id=plan.order),
        )

    async def _repartition(self, plan: Replacement) -> None:
        assert plan.savepoint is not None
        assert plan.partitions is not None
        failpoint("replacements.before-division")
        try:
            self._repartitioned = await self._services.repartition(plan.savepoint, plan.partitions)
        except StokerError as error:
            if error.retriable:
                raise
            self._refusal = error.message
        failpoint("replacements.after-division")

    async def _submit(self, version: Callable[[], Awaitable[JobGraph]]) -> None:
        """An error that a retry cannot overcome becomes the refusal; any other error is retried."""
        try:
            graph = await version()
            failpoint("replacements.before-submission")
            await self._dispatcher.submit_job(graph, self.plan.value.owner)
        except (Fenced, SessionExpired):
            raise
        except StokerError as error:
            if error.retriable:
                raise
            self._refusal = error.message
        failpoint("replacements.after-submission")

    async def _new_version(self, plan: Replacement) -> JobGraph:
        # After a rollback the old version continues from the last commit of this one.
        retaining = {RETENTION: "RETAIN_ON_CANCELLATION"}
        origin = plan.origin or plan.savepoint or ""
        if plan.kind is ReplacementKind.RESCALE:
            configuration = {**retaining, SHUFFLE_PARTITIONS: str(plan.partitions)}
            return await self._saved(plan, plan.new_id, origin, configuration)
        graph = await self._store.graph(plan)
        restore = Restore(path=origin, allow_non_restored_state=plan.allow_non_restored_state)
        return msgspec.structs.replace(
            graph, restore=restore, configuration={**graph.configuration, **retaining}
        )

    async def _old_version(self, plan: Replacement) -> JobGraph:
        configuration: dict[str, str] = {}
        if plan.kind is ReplacementKind.RESCALE and plan.origin is not None:
            # Its origin is a checkpoint of the new version, which has the new number of partitions.
            configuration = {SHUFFLE_PARTITIONS: str(plan.partitions)}
        return await self._saved(plan, plan.back_id, plan.origin, configuration)

    async def _saved(
        self, plan: Replacement, job_id: JobId, origin: str | None, configuration: dict[str, str]
    ) -> JobGraph:
        assert plan.savepoint is not None
        return await saved_job(
            plan.savepoint,
            job_id,
            origin=origin,
            configuration=configuration,
            storage=self._services.storage,
            open_storage=self._services.savepoints.open_storage,
        )

    async def _cancel(self, job_id: JobId) -> None:
        failpoint("replacements.before-cancel")
        try:
            await self._dispatcher.cancel_job(job_id)
        except JobAlreadyEnded as ended:
            log.info("%s", ended)


async def saved_job(
    savepoint: str,
    job_id: JobId,
    *,
    origin: str | None,
    configuration: Mapping[str, str],
    storage: Storage,
    open_storage: OpenStorage,
) -> JobGraph:
    """The saved graph under another id. Its files are in the storage when this returns.

    The record of the original job is removed when that job has ended, so its savepoint is the only
    place from which the old version of a replacement can be submitted again.
    """
    location = locate(savepoint, open_storage)
    graph = await saved_graph(location)
    for artifact in graph.artifacts:
        stored = path_of(job_id, artifact.key or BlobKey(artifact.sha256))
        await _copy_artifact(location, artifact.sha256, storage, stored)
    return msgspec.structs.replace(
        graph,
        job_id=job_id,
        idempotency_key=None,
        restore=Restore(path=origin or savepoint),
        configuration={**graph.configuration, **configuration},
    )


async def _copy_artifact(
    location: SavepointLocation, sha256: str, storage: Storage, stored: str
) -> None:
    path = artifact_path(sha256)
    try:
        copied = await copy_file(location.parent, location.inside(path), storage, stored)
    except NotFound:
        raise UnusableSavepoint(location.url, f"its file {path} is missing") from None
    if copied.sha256 != sha256:
        await storage.delete(stored)
        raise UnusableSavepoint(location.url, f"its file {path} is damaged")
