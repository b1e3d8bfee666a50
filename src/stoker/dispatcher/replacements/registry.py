"""All replacements that the leading dispatcher knows, by job and trigger id.

A replacement is on record before its trigger is acknowledged; from then on every leader continues
it. So everything that can be refused is refused first, before any job is stopped.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Iterable

import msgspec

from stoker.core.checks.validation import validate
from stoker.core.errors import Conflict, DuplicateJob, InvalidInput, NotFound, StokerError
from stoker.core.graph import JobGraph, JobType
from stoker.core.ids import JobId
from stoker.core.replacements import (
    Replacement,
    ReplacementKind,
    ReplacementPhase,
    ReplacementRequest,
)
from stoker.dispatcher.jobs import LiveJobs
from stoker.dispatcher.replacements.driver import DispatcherActions, ReplacementDriver
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.stores import Stores
from stoker.ha.stores.replacements import graph_path

log = logging.getLogger(__name__)

MAX_KEPT = 200
"""Beyond this number the oldest replacements that are over are forgotten."""
MAX_PARTITIONS = 100_000


class Replacements:
    def __init__(self, services: DispatcherServices, stores: Stores, jobs: LiveJobs) -> None:
        self._services = services
        self._store = stores.replacements
        self._graphs = stores.graphs
        self._jobs = jobs
        self._drivers: dict[tuple[JobId, str], ReplacementDriver] = {}

    def pending_job_ids(self) -> set[JobId]:
        """Ids of jobs that replacements may still submit. The sweep must spare their files."""
        pending = [each for each in self._plans() if not each.phase.over]
        return {job_id for plan in pending for job_id in (plan.new_id, plan.back_id)}

    def resume(self, plans: Iterable[Replacement], dispatcher: DispatcherActions) -> None:
        """Continue the replacements that earlier leaders began."""
        for plan in plans:
            self._start(plan, self._services.ids.nonce()[:12], dispatcher)

    async def trigger(self, request: ReplacementRequest, dispatcher: DispatcherActions) -> None:
        """The replacement is on record when this returns. The caller holds the lock of the job."""
        if self._is_repetition(request):
            return
        dispatcher.check_takes_savepoints(request.job_id)
        self._check(request)
        if request.graph is not None:
            await self._check_new_version(request.graph, dispatcher)
        await self._begin(request, dispatcher)

    def _is_repetition(self, request: ReplacementRequest) -> bool:
        """Whether it was triggered before. The same id for another request is refused."""
        driver = self._drivers.get((request.job_id, request.trigger_id))
        if driver is None:
            return False
        if driver.plan.value.digest != _digest(request):
            raise Conflict(
                f"trigger id {request.trigger_id} was used for another replacement of job "
                f"{request.job_id}; choose another id"
            )
        return True

    def _check(self, request: ReplacementRequest) -> None:
        """Refuse what is known to fail before anything is stopped."""
        if request.kind is ReplacementKind.UPGRADE and request.graph is None:
            raise InvalidInput("an upgrade needs the graph of the new version")
        if request.kind is ReplacementKind.RESCALE and not (
            1 <= (request.partitions or 0) <= MAX_PARTITIONS
        ):
            raise InvalidInput(f"partitions must be a number from 1 to {MAX_PARTITIONS}")
        if not 0 <= request.window_seconds <= 86400:
            raise InvalidInput("the trial window must be from 0 s to a day")
        for plan in self._plans():
            if plan.job_id == request.job_id and not plan.phase.over:
                raise Conflict(
                    f"job {request.job_id} is already being replaced, under trigger id "
                    f"{plan.trigger_id}"
                )
        self._services.savepoints.options.directory_for(request.directory)

    async def _check_new_version(self, graph: JobGraph, dispatcher: DispatcherActions) -> None:
        validate(graph, max_bytes=self._services.options.max_graph_size)
        if graph.job_type is JobType.BATCH:
            raise InvalidInput("the new version is a batch job, and the old one a streaming job")
        if await self._graphs.known(graph) is not None:
            raise DuplicateJob(graph.job_id, globally_terminated=False)
        self._jobs.queues.check(graph)
        await dispatcher.check_artifacts(graph)

    async def _begin(self, request: ReplacementRequest, dispatcher: DispatcherActions) -> None:
        order = self._services.ids.nonce()[:12]
        now = self._services.wall_clock()
        graph = request.graph
        plan = Replacement(
            job_id=request.job_id,
            trigger_id=request.trigger_id,
            kind=request.kind,
            digest=_digest(request),
            new_id=self._services.ids.job() if graph is None else graph.job_id,
            back_id=self._services.ids.job(),
            directory=self._services.savepoints.options.directory_for(request.directory),
            order=order,
            began=now,
            changed=now,
            pointer=None if graph is None else graph_path(request.job_id, request.trigger_id),
            partitions=request.partitions,
            allow_non_restored_state=request.allow_non_restored_state,
            window_seconds=request.window_seconds,
            owner=dispatcher.job_owner(request.job_id),
        )
        await self._store.create(plan, graph)
        log.info("replacement of job %s (%s) begins", plan.job_id, plan.kind)
        self._record_phase(plan)
        self._start(plan, order, dispatcher)
        await self._forget_old()

    async def status(
        self, job_id: JobId, trigger_id: str, known: ReplacementPhase | None, seconds: float
    ) -> Replacement:
        driver = self._drivers.get((job_id, trigger_id))
        if driver is None:
            raise NotFound(
                f"no replacement of job {job_id} was triggered with id {trigger_id}; the last "
                f"{MAX_KEPT} are remembered"
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await driver.plan.wait_until(lambda plan: plan.phase.over or plan.phase != known)
        return driver.plan.value

    def _start(self, plan: Replacement, order: str, dispatcher: DispatcherActions) -> None:
        driver = ReplacementDriver(
            plan,
            order,
            store=self._store,
            services=self._services,
            dispatcher=dispatcher,
            on_phase=self._record_phase,
        )
        self._drivers[(plan.job_id, plan.trigger_id)] = driver
        if not plan.phase.over:
            self._jobs.scope.spawn(f"replacement {plan.trigger_id}", driver.run())

    def _record_phase(self, plan: Replacement) -> None:
        self._jobs.events.replaced(plan, self._jobs.name_of(plan.job_id))

    def _plans(self) -> list[Replacement]:
        return [driver.plan.value for driver in self._drivers.values()]

    async def _forget_old(self) -> None:
        over = sorted((plan for plan in self._plans() if plan.phase.over), key=_last_change)
        for plan in over[: max(0, len(over) - MAX_KEPT)]:
            try:
                await self._store.remove(plan)
            except StokerError as error:
                log.warning("replacement %s is remembered for now: %s", plan.trigger_id, error)
                return
            self._drivers.pop((plan.job_id, plan.trigger_id), None)


def _last_change(plan: Replacement) -> int:
    return plan.changed


def _digest(request: ReplacementRequest) -> str:
    graph = request.graph
    if graph is not None:
        # Files are identified by their checksums; where they are stored does not matter.
        artifacts = tuple(msgspec.structs.replace(each, key=None) for each in graph.artifacts)
        request = msgspec.structs.replace(
            request, graph=msgspec.structs.replace(graph, artifacts=artifacts)
        )
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()
