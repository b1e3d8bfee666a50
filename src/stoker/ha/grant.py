"""The grant of leadership to a process: an epoch, and every write fenced by it.

A process may believe that it leads when another one does already, because it was frozen or cut
off. So no write relies on that belief: each transaction also checks the epoch at the coordinator,
and fails as a whole once a later leader has raised it.
"""

import asyncio
from collections.abc import Sequence

from stoker.core.errors import LeadershipLost, NoSuchKey, SessionExpired, VersionMismatch
from stoker.core.ids import ResourceId
from stoker.ha import keys
from stoker.ha.coordinator import Check, Coordinator, Op
from stoker.ha.follow import has_contact, session_surely_lives


class Grant:
    """Lasts from raising the epoch until it is revoked, which is final."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        process: ResourceId,
        epoch: int,
        vacancy_noticed_at: float | None = None,
        previous: ResourceId | None = None,
        led_at: float = 0.0,
    ) -> None:
        self.coordinator = coordinator
        self.process = process
        self.epoch = epoch
        self.vacancy_noticed_at = vacancy_noticed_at
        """Loop time at which this process saw that nobody leads; None if it led before."""
        self.previous = previous
        """The process that led before; None for the first leader."""
        self.led_at = led_at
        """Loop time from which the process leads."""
        self._revoked = asyncio.Event()

    @property
    def is_revoked(self) -> bool:
        return self._revoked.is_set()

    @property
    def is_valid(self) -> bool:
        """Whether this process still believes that it leads; only a `commit` knows for sure."""
        return not self.is_revoked and has_contact(self.coordinator)

    @property
    def is_certain(self) -> bool:
        """Whether no other process can lead: the last contact is less than a session timeout ago.

        A process that was frozen notices it here by its clock, before any event arrives.
        """
        return self.is_valid and session_surely_lives(self.coordinator)

    def require_certainty(self) -> None:
        """Raise LeadershipLost if another process may lead; for effects without a fence."""
        if not self.is_certain:
            raise self._lost()

    def revoke(self) -> None:
        self._revoked.set()

    async def wait_until_revoked(self) -> None:
        await self._revoked.wait()

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        if self.is_revoked:
            raise self._lost()
        return await self.commit_until_superseded(ops)

    async def commit_until_superseded(self, ops: Sequence[Op]) -> list[int]:
        """Commit also after revocation, as long as no later leader has raised the epoch."""
        try:
            versions = await self.coordinator.commit([Check(keys.EPOCH, self.epoch), *ops])
        except (VersionMismatch, NoSuchKey) as error:
            if error.facts["key"] != keys.EPOCH:
                raise
            self.revoke()
            raise self._lost() from error
        except SessionExpired as error:
            self.revoke()
            raise self._lost() from error
        return versions[1:]

    def _lost(self) -> LeadershipLost:
        return LeadershipLost(
            f"{self.process} leads no longer; the next leader finishes what was begun in epoch "
            f"{self.epoch}",
            process=self.process,
            epoch=self.epoch,
        )
