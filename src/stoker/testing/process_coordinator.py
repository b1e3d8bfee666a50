"""A coordinator session as one simulated process sees it: slow, or outdated after a freeze."""

import asyncio
from collections.abc import Iterable, Sequence
from contextvars import Context

from stoker.ha.coordinator import ConnectionState, Op
from stoker.ha.memory import MemoryCoordination, MemoryCoordinator
from stoker.testing.slowness import Slowness

_NEXT = 1e-6
"""Seconds between two operations of a session, which arrive in the order of sending."""


class ProcessCoordinator(MemoryCoordinator):
    """While frozen it sends nothing: its session may end unnoticed, and its reads go stale."""

    def __init__(
        self, coordination: MemoryCoordination, slowness: Slowness, *, auto_renewing: bool = False
    ) -> None:
        self._slowness = slowness
        self._arrival = 0.0
        self._frozen_at: float | None = None
        self.is_trusted = False
        """Accept calls after the end of the session: only the epoch then refuses a late write."""
        super().__init__(coordination, auto_renewing=auto_renewing)

    @property
    def last_contact(self) -> float:
        return super().last_contact if self._frozen_at is None else self._frozen_at

    def freeze(self) -> None:
        if self._frozen_at is not None or self.state is not ConnectionState.CONNECTED:
            return
        self._frozen_at = asyncio.get_running_loop().time()
        timeout = self._coordination.session_timeout
        if timeout is not None:
            # Outside the context of the frozen process, where the timer would be held back.
            asyncio.get_running_loop().call_later(
                timeout, self._end_if_still_frozen, self.session, context=Context()
            )

    def _end_if_still_frozen(self, session: str) -> None:
        if self._frozen_at is not None and session == self.session:
            self._coordination.expire(self, tell=False)

    def regain_contact(self) -> None:
        """Some time after waking up, learn what became of the session and of the values read."""
        if self._frozen_at is None:
            return
        self._frozen_at = None
        self.is_trusted = False
        if not self._is_live():
            self.lose_session()
        elif self.state is ConnectionState.CONNECTED:
            self.flush_log()

    def note_contact(self) -> None:
        if self._frozen_at is None:
            super().note_contact()
        else:
            self._contact_until = self._frozen_at

    def notice(self, touched: Iterable[str]) -> None:
        if self._frozen_at is None:
            super().notice(touched)

    def _is_live(self) -> bool:
        return self.is_trusted or super()._is_live()

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        versions = await super().commit(ops)
        await self._slowness.wait()
        return versions

    async def _turn(self) -> None:
        if self._slowness.seconds:
            now = asyncio.get_running_loop().time()
            self._arrival = max(now + self._slowness.next_delay(), self._arrival + _NEXT)
            await asyncio.sleep(self._arrival - now)
        await super()._turn()
