"""Slots that a job needs no longer, on their way back to their task executors."""

import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stoker.core.errors import StokerError
from stoker.core.ids import AllocationId, InstanceId, JobId
from stoker.core.tokens import FencingToken
from stoker.jobmaster.attempts import SlotHandle
from stoker.jobmaster.executors import KnownExecutor

log = logging.getLogger(__name__)

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


class SlotReturns:
    """By calls of its own, or with the answer to the task executor that asks just now."""

    def __init__(
        self,
        job_id: JobId,
        token: FencingToken,
        executors: Mapping[InstanceId, KnownExecutor],
        spawn: Spawn,
    ) -> None:
        self._job_id = job_id
        self._token = token
        self._executors = executors
        self._spawn = spawn
        self._answered: InstanceId | None = None
        self._with_answer: list[AllocationId] = []

    @contextmanager
    def with_answer_to(self, instance: InstanceId) -> Iterator[list[AllocationId]]:
        """Fills the list with what goes back to it meanwhile: within one turn of the loop."""
        self._answered, self._with_answer = instance, []
        try:
            yield self._with_answer
        finally:
            self._answered = None

    def give_back(self, slots: Sequence[SlotHandle]) -> None:
        by_instance: dict[InstanceId, list[AllocationId]] = {}
        for slot in slots:
            by_instance.setdefault(slot.instance, []).append(slot.allocation)
        for instance, allocations in by_instance.items():
            if instance == self._answered:
                self._with_answer += allocations
            elif (executor := self._executors.get(instance)) is not None:
                self._spawn(f"release at {instance}", self._call(executor, tuple(allocations)))

    async def _call(self, executor: KnownExecutor, allocations: tuple[AllocationId, ...]) -> None:
        try:
            await executor.gateway.free_slots(
                self._token, self._job_id, allocations, "no longer needed"
            )
        except StokerError as error:
            # The task executor frees what the next heartbeat does not list.
            log.info("slots at %s not given back yet: %s", executor.resource_id, error)
