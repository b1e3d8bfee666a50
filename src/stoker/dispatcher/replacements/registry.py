"""All replacements of jobs that the leading dispatcher knows: begun, carried on, asked for."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Iterable

import msgspec

from stoker.aio.scope import TaskScope
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
from stoker.dispatcher.queues import Queues
from stoker.dispatcher.replacements.driver import Carrying, Hands
from stoker.dispatcher.services import DispatcherServices
from stoker.dispatcher.stores import Stores
from stoker.ha.stores.replacements import graph_path

log = logging.getLogger(__name__)

MOST_KEPT = 200
"""Of those that are over: the oldest are forgotten first."""
MOST_PARTITIONS = 100_000


class Replacements:
    def __init__(
        self, services: DispatcherServices, stores: Stores, queues: Queues, scope: TaskScope
    ) -> None:
        self._services = services
        self._store = stores.replacements
        self._graphs = stores.graphs
        self._queues = queues
        self._scope = scope
        self._known: dict[tuple[JobId, str], Carrying] = {}

    def job_ids(self) -> set[JobId]:
        """Of versions that are not handed in yet, whose files are wanted all the same."""
        pending = [each for each in self._plans() if not each.phase.over]
        return {job_id for plan in pending for job_id in (plan.new_id, plan.back_id)}

    def carry_on(self, plans: Iterable[Replacement], hands: Hands) -> None:
        """What earlier leaders have begun."""
        for plan in plans:
            self._carry(plan, self._services.ids.nonce()[:12], hands)

    async def trigger(self, request: ReplacementRequest, hands: Hands) -> None:
        """On record when this returns; what can be refused is refused before anything is stopped.

        One at a time for each job.
        """
        if self._repeats(request):
            return
        hands.check_takes_savepoints(request.job_id)
        self._check(request)
        if request.graph is not None:
            await self._check_new_version(request.graph, hands)
        await self._begin(request, hands)

    def _repeats(self, request: ReplacementRequest) -> bool:
        """Whether it was triggered before; the same id for another one is refused (OPS-01)."""
        known = self._known.get((request.job_id, request.trigger_id))
        if known is None:
            return False
        if known.plan.value.digest != _digest(request):
            raise Conflict(
                f"trigger id {request.trigger_id} was used for another replacement of job "
                f"{request.job_id}; choose another id"
            )
        return True

    def _check(self, request: ReplacementRequest) -> None:
        """What can be known before anything is stopped."""
        if request.kind is ReplacementKind.UPGRADE and request.graph is None:
            raise InvalidInput("an upgrade needs the graph of the new version")
        if request.kind is ReplacementKind.RESCALE and not (
            1 <= (request.partitions or 0) <= MOST_PARTITIONS
        ):
            raise InvalidInput(f"partitions must be a number from 1 to {MOST_PARTITIONS}")
        if not 0 <= request.window_seconds <= 86400:
            raise InvalidInput("the window must be from 0 s to a day")
        for plan in self._plans():
            if plan.job_id == request.job_id and not plan.phase.over:
                raise Conflict(
                    f"job {request.job_id} is being replaced already, under trigger id "
                    f"{plan.trigger_id}"
                )
        self._directory(request)

    async def _check_new_version(self, graph: JobGraph, hands: Hands) -> None:
        validate(graph, max_bytes=self._services.options.max_graph_size)
        if graph.job_type is JobType.BATCH:
            raise InvalidInput("the new version is a batch job, and the old one a streaming job")
        if await self._graphs.known(graph) is not None:
            raise DuplicateJob(graph.job_id, globally_terminated=False)
        self._queues.check(graph)
        await hands.check_artifacts(graph)

    async def _begin(self, request: ReplacementRequest, hands: Hands) -> None:
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
            directory=self._directory(request),
            order=order,
            began=now,
            changed=now,
            pointer=None if graph is None else graph_path(request.job_id, request.trigger_id),
            partitions=request.partitions,
            allow_non_restored_state=request.allow_non_restored_state,
            window_seconds=request.window_seconds,
        )
        await self._store.create(plan, graph)
        log.info("job %s is to be replaced (%s)", plan.job_id, plan.kind)
        self._carry(plan, order, hands)
        await self._forget_old()

    async def status(
        self, job_id: JobId, trigger_id: str, known: ReplacementPhase | None, seconds: float
    ) -> Replacement:
        carrying = self._known.get((job_id, trigger_id))
        if carrying is None:
            raise NotFound(
                f"no replacement of job {job_id} was triggered with id {trigger_id}; the last "
                f"{MOST_KEPT} are remembered"
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await carrying.plan.wait_until(lambda plan: plan.phase.over or plan.phase != known)
        return carrying.plan.value

    def _carry(self, plan: Replacement, order: str, hands: Hands) -> None:
        carrying = Carrying(plan, order, store=self._store, services=self._services, hands=hands)
        self._known[(plan.job_id, plan.trigger_id)] = carrying
        if not plan.phase.over:
            self._scope.spawn(f"replacement {plan.trigger_id}", carrying.run())

    def _plans(self) -> list[Replacement]:
        return [carrying.plan.value for carrying in self._known.values()]

    def _directory(self, request: ReplacementRequest) -> str:
        directory = request.directory or self._services.savepoints.options.savepoint_directory
        if directory is None:
            raise InvalidInput(
                "no directory is named for the savepoint; name one, or set "
                "execution.checkpointing.savepoint-dir for the cluster"
            )
        return directory

    async def _forget_old(self) -> None:
        over = sorted((plan for plan in self._plans() if plan.phase.over), key=_age)
        for plan in over[: max(0, len(over) - MOST_KEPT)]:
            try:
                await self._store.remove(plan)
            except StokerError as error:
                log.warning("replacement %s is remembered for now: %s", plan.trigger_id, error)
                return
            self._known.pop((plan.job_id, plan.trigger_id), None)


def _age(plan: Replacement) -> int:
    return plan.changed


def _digest(request: ReplacementRequest) -> str:
    graph = request.graph
    if graph is not None:
        # Files are named by their checksums; where they are kept does not matter.
        plain = tuple(msgspec.structs.replace(each, key=None) for each in graph.artifacts)
        request = msgspec.structs.replace(
            request, graph=msgspec.structs.replace(graph, artifacts=plain)
        )
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()
