"""The leadership of a process: an epoch, and every write fenced by it."""

import asyncio
from collections.abc import Sequence

from stoker.core.errors import LeadershipLost, NoSuchKey, SessionExpired, VersionMismatch
from stoker.core.ids import ResourceId
from stoker.ha import keys
from stoker.ha.coordinator import Check, Coordinator, Op
from stoker.ha.follow import has_contact, session_surely_lives


class Grant:
    """From the raised epoch until it is revoked, once and for good."""

    def __init__(self, coordinator: Coordinator, *, process: ResourceId, epoch: int) -> None:
        self.coordinator = coordinator
        self.process = process
        self.epoch = epoch
        self._revoked = asyncio.Event()

    @property
    def is_revoked(self) -> bool:
        return self._revoked.is_set()

    @property
    def is_valid(self) -> bool:
        """As far as this process knows; only a `commit` knows for sure."""
        return not self.is_revoked and has_contact(self.coordinator)

    @property
    def is_certain(self) -> bool:
        """No other process can lead: a session timeout has not passed since the last contact.

        A process that was frozen knows by its clock that it was, before any event tells it.
        """
        return self.is_valid and session_surely_lives(self.coordinator)

    def require_certainty(self) -> None:
        """LeadershipLost when another process may lead: for what no transaction can fence."""
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
        """For the last words of a is_revoked leader, which count while nobody has followed it."""
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
            f"{self.process} does not lead any more; what it began in epoch {self.epoch} is for "
            "the next leader to finish",
            process=self.process,
            epoch=self.epoch,
        )
