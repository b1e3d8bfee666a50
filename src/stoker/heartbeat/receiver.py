"""The side that answers."""

from types import TracebackType
from typing import Generic, Self

from stoker.core.errors import NotFound
from stoker.heartbeat.options import HeartbeatOptions
from stoker.heartbeat.watch import (
    Call,
    LossListener,
    Own,
    OwnPayload,
    PayloadListener,
    TargetWatch,
    Theirs,
)


class HeartbeatReceiver(Generic[Own, Theirs]):
    """Notes the requests of those it monitors; one that is silent for the timeout is lost."""

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

    def monitor_target(self, origin: str, call: Call[Own, Theirs] | None = None) -> None:
        """Expect requests from now on. `call` is needed by `poke` alone."""
        self._watch.add(origin, call)

    def unmonitor_target(self, origin: str) -> None:
        self._watch.remove(origin)

    def request_arrived(self, origin: str, payload: Theirs) -> Own:
        """The answer to a heartbeat request; an unknown origin gets none, but NotFound."""
        if not self._watch.payload_arrived(origin, payload):
            raise NotFound(
                f"{self._watch.name} does not monitor {origin} and does not answer its "
                "heartbeat; register first",
                origin=origin,
            )
        return self._watch.own_payload_for(origin)

    def poke(self, origin: str) -> None:
        """The transport saw a broken connection: find out at once whether the origin is gone."""
        self._watch.poke(origin)

    def last_heard(self, origin: str) -> float:
        return self._watch.last_heard(origin)
