"""The side that asks."""

import asyncio
from types import TracebackType
from typing import Generic, Self

from stoker.heartbeat.options import HeartbeatOptions
from stoker.heartbeat.watch import (
    Call,
    LossListener,
    Own,
    OwnPayload,
    PayloadListener,
    TargetWatch,
    Theirs,
    Watched,
)


class HeartbeatSender(Generic[Own, Theirs]):
    """Every interval, sends a request with its own payload to each target and reports the answer.

    A target is lost when it was silent for the timeout, or when calls to it failed as unreachable
    as often in a row as the threshold says. The loss is told once, and the target is forgotten.
    """

    def __init__(
        self,
        name: str,
        options: HeartbeatOptions,
        *,
        own_payload: OwnPayload[Own],
        on_payload: PayloadListener[Theirs],
        on_lost: LossListener,
    ) -> None:
        self._watch: TargetWatch[Own, Theirs] = TargetWatch(
            name, options, own_payload, on_payload, on_lost
        )

    async def __aenter__(self) -> Self:
        await self._watch.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return await self._watch.__aexit__(kind, error, traceback)

    @property
    def targets(self) -> tuple[str, ...]:
        return self._watch.targets

    def monitor_target(self, target_id: str, call: Call[Own, Theirs]) -> None:
        """The first request goes out one interval from now; an earlier target gives way."""
        target = self._watch.add(target_id, call)
        if target:
            self._watch.spawn(target, "ask", self._ask(target))

    def unmonitor_target(self, target_id: str) -> None:
        self._watch.remove(target_id)

    def poke(self, target_id: str) -> None:
        """The transport saw a broken connection: find out at once whether the target is gone."""
        self._watch.poke(target_id)

    def last_heard(self, target_id: str) -> float:
        return self._watch.last_heard(target_id)

    async def _ask(self, target: Watched[Own, Theirs]) -> None:
        while True:
            await asyncio.sleep(self._watch.options.interval.total_seconds())
            # Not awaited: a call that hangs must not delay the next request.
            self._watch.spawn(target, "request", self._watch.probe(target))
