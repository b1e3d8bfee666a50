"""One replacement of a job, carried from where its record stands to its end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import assert_never

import msgspec

from stoker.aio.latest import Latest
from stoker.core.checkpoints import SavepointRequest
from stoker.core.errors import (
    Fenced,
    JobAlreadyEnded,
    JobNotFound,
    NotFound,
    SessionExpired,
    StokerError,
    UnusableSavepoint,
)
from stoker.core.failpoints import failpoint
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import JobId
from stoker.core.job_options import SHUFFLE_PARTITIONS
from stoker.core.replacements import Replacement, ReplacementKind, ReplacementPhase
from stoker.core.results import JobDetails
from stoker.dispatcher.replacements.decide import (
    Advance,
    CancelNew,
    Divide,
    JobSeen,
    Stop,
    StopSeen,
    SubmitNew,
    SubmitOld,
    Wait,
    World,
    decide,
    seen,
)
from stoker.dispatcher.replacements.saved_job import saved_job
from stoker.dispatcher.services import DispatcherServices
from stoker.gateways.dispatcher import SavepointStatus, Submitted
from stoker.ha.stores.replacements import ReplacementStore
from stoker.savepoints.locations import locate, read_manifest

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
PAUSE_SECONDS = 2.0
"""After something that may go better next time."""
BROKEN_PAUSE_SECONDS = 30.0

_RETENTION = "execution.checkpointing.externalized-checkpoint-retention"


@dataclass(frozen=True, kw_only=True)
class Hands:
    """What the dispatcher does for a replacement, as it does it for clients."""

    submit: Callable[[JobGraph], Awaitable[Submitted]]
    details: Callable[[JobId], Awaitable[JobDetails]]
    cancel: Callable[[JobId], Awaitable[None]]
    check_takes_savepoints: Callable[[JobId], None]
    check_artifacts: Callable[[JobGraph], Awaitable[None]]
    trigger_savepoint: Callable[[JobId, str, SavepointRequest], None]
    savepoint_status: Callable[[JobId, str, float], Awaitable[SavepointStatus]]


class Carrying:
    def __init__(
        self,
        plan: Replacement,
        fresh_order: str,
        *,
        store: ReplacementStore,
        services: DispatcherServices,
        hands: Hands,
    ) -> None:
        self.plan = Latest(plan)
        self._fresh_order = fresh_order
        self._store = store
        self._services = services
        self._hands = hands
        self._divided: str | None = None
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
                await asyncio.sleep(PAUSE_SECONDS)
            # The border between one replacement and all jobs: its faults stay its own.
            except Exception:
                log.exception("replacement %s does not go on", self.plan.value.trigger_id)
                await asyncio.sleep(BROKEN_PAUSE_SECONDS)

    async def _step(self) -> None:
        plan = self.plan.value
        step = decide(plan, await self._look(plan), self._fresh_order)
        match step:
            case Wait():
                await asyncio.sleep(LOOK_SECONDS)
            case Advance(plan=following):
                await self._advance(following)
            case Stop():
                self._stop(plan)
            case Divide():
                await self._divide(plan)
            case SubmitNew():
                await self._submit(lambda: self._new_version(plan))
            case SubmitOld():
                await self._submit(lambda: self._old_version(plan))
            case CancelNew():
                await self._cancel(plan.new_id)
            case _:
                assert_never(step)

    async def _look(self, plan: Replacement) -> World:
        now = asyncio.get_running_loop().time()
        new = await self._job(plan.new_id)
        if plan.phase is ReplacementPhase.ENDING and new is not None:
            new = replace(new, retained=await self._further(plan, new.retained))
        if plan.phase is ReplacementPhase.WATCHING and new is not None and new.runs:
            self._steady_since = now if self._steady_since is None else self._steady_since
        else:
            self._steady_since = None
        return World(
            in_phase_seconds=now - self._phase_since,
            steady_seconds=None if self._steady_since is None else now - self._steady_since,
            old=await self._job(plan.job_id),
            new=new,
            back=await self._job(plan.back_id),
            stop=await self._stop_seen(plan),
            divided=self._divided,
            refusal=self._refusal,
        )

    async def _further(self, plan: Replacement, retained: str | None) -> str | None:
        """The checkpoint, if any query has committed more in it than when the job was stopped.

        Otherwise the savepoint is the better origin: no other version has touched it.
        """
        if retained is None or plan.savepoint is None:
            return None
        known = await self._batches(plan.savepoint)
        reached = await self._batches(retained)
        went_on = any(batch > known.get(region, -1) for region, batch in reached.items())
        return retained if went_on else None

    async def _batches(self, path: str) -> dict[str, int]:
        try:
            manifest = await read_manifest(locate(path, self._services.savepoints.open_storage))
        except UnusableSavepoint as error:
            log.warning("%s", error)
            return {}
        return manifest.batches

    async def _job(self, job_id: JobId) -> JobSeen | None:
        try:
            return seen(await self._hands.details(job_id))
        except JobNotFound:
            return None

    async def _stop_seen(self, plan: Replacement) -> StopSeen | None:
        try:
            status = await self._hands.savepoint_status(plan.job_id, plan.order, 0)
        except NotFound:
            return None
        if not status.done:
            return StopSeen()
        return StopSeen(done=True, failure=status.message if status.taken is None else None)

    async def _advance(self, following: Replacement) -> None:
        following = msgspec.structs.replace(following, changed=self._services.wall_clock())
        await self._store.put(following)
        before = self.plan.value
        if following.phase is not before.phase:
            log.info(
                "job %s is replaced (%s): %s %s",
                *(following.job_id, following.kind, following.phase, following.reason),
            )
            self._phase_since = asyncio.get_running_loop().time()
            self._refusal = None
        self.plan.set(following)

    def _stop(self, plan: Replacement) -> None:
        failpoint("replacements.before-stop")
        self._hands.trigger_savepoint(
            plan.job_id,
            plan.order,
            SavepointRequest(directory=plan.directory, stop=True, savepoint_id=plan.order),
        )

    async def _divide(self, plan: Replacement) -> None:
        assert plan.savepoint is not None
        assert plan.partitions is not None
        failpoint("replacements.before-division")
        try:
            self._divided = await self._services.repartition(plan.savepoint, plan.partitions)
        except StokerError as error:
            if error.retriable:
                raise
            self._refusal = error.message
        failpoint("replacements.after-division")

    async def _submit(self, version: Callable[[], Awaitable[JobGraph]]) -> None:
        """What is refused is refused for good; everything else is tried again."""
        try:
            graph = await version()
            failpoint("replacements.before-submission")
            await self._hands.submit(graph)
        except (Fenced, SessionExpired):
            raise
        except StokerError as error:
            if error.retriable:
                raise
            self._refusal = error.message
        failpoint("replacements.after-submission")

    async def _new_version(self, plan: Replacement) -> JobGraph:
        # What it commits must not be lost or written twice if it has to go.
        retaining = {_RETENTION: "RETAIN_ON_CANCELLATION"}
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
            # It goes on from what the new version has committed, which is divided anew.
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
            await self._hands.cancel(job_id)
        except JobAlreadyEnded as ended:
            log.info("%s", ended)
