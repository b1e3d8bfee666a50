"""That the cluster ends for good: asked for by a user, carried out by whoever leads.

The record stays when all is over. It names the shutdown by a nonce, so that processes which were
there know that they end, and those of a cluster that is started anew that it is none of theirs.
"""

import logging
from enum import StrEnum

from stoker.core.errors import CorruptContent, NoSuchKey, VersionMismatch
from stoker.core.failpoints import failpoint
from stoker.core.ids import Ids
from stoker.core.states import ApplicationStatus
from stoker.core.values import Millis
from stoker.ha import keys
from stoker.ha.coordinator import Create, Delete, Op, Put, Versioned
from stoker.ha.leadership import Leadership
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.ha.stores.fenced import commit_or_read_back

log = logging.getLogger(__name__)


class Stage(StrEnum):
    ENDING = "ending"
    """Every leader drives it: jobs are ended, then it is over."""
    OVER = "over"
    """Every process that was there ends."""


class ShutdownRecord(StoredRecord, frozen=True, kw_only=True):
    """What `shutdown` says."""

    nonce: str
    """Names this shutdown."""
    status: ApplicationStatus
    at: Millis
    """When it was asked for."""
    stage: Stage = Stage.ENDING


def understood(found: Versioned | None) -> ShutdownRecord | None:
    """A record that cannot be read ends nobody."""
    if found is None:
        return None
    try:
        return decode_record(found.value, ShutdownRecord, keys.SHUTDOWN)
    except CorruptContent as error:
        log.error("%s; it is taken for none", error)
        return None


class ShutdownStore:
    """Of one leadership: writes of a former leader are refused by the coordinator (RUN-06).

    Whoever uses it does one thing after the other.
    """

    def __init__(self, leadership: Leadership, ids: Ids) -> None:
        self._leadership = leadership
        self._coordinator = leadership.coordinator
        self._ids = ids

    async def get(self) -> ShutdownRecord | None:
        return understood(await self._coordinator.read(keys.SHUTDOWN))

    async def ask(self, status: ApplicationStatus, *, at: Millis) -> ShutdownRecord:
        """Durable when this returns. Again is harmless: the first one counts.

        ConnectionLost: unknown, ask again.
        """
        found = await self._coordinator.read(keys.SHUTDOWN)
        known = understood(found)
        if known is not None and known.stage is Stage.ENDING:
            return known
        record = ShutdownRecord(nonce=self._ids.nonce(), status=status, at=at)
        failpoint("shutdown.before-record")
        await self._write(found, encode(record))
        failpoint("shutdown.after-record")
        return record

    async def complete(self, record: ShutdownRecord) -> None:
        """From here on every process that was there ends. Again is harmless."""
        # So that its version is the one of the last write.
        await self._coordinator.sync()
        found = await self._coordinator.read(keys.SHUTDOWN)
        over = ShutdownRecord(
            nonce=record.nonce, status=record.status, at=record.at, stage=Stage.OVER
        )
        if found is not None and found.value == encode(over):
            return
        failpoint("shutdown.before-over")
        await self._write(found, encode(over))
        failpoint("shutdown.after-over")

    async def forget(self) -> None:
        """Of one that nobody completed in time. That it is absent is fine."""
        found = await self._coordinator.read(keys.SHUTDOWN)
        if found is None:
            return
        failpoint("shutdown.before-forgetting")
        try:
            await self._leadership.commit([Delete(keys.SHUTDOWN, found.version)])
        except (NoSuchKey, VersionMismatch) as error:
            log.info("the shutdown was forgotten before: %s", error)
        failpoint("shutdown.after-forgetting")

    async def _write(self, found: Versioned | None, value: bytes) -> None:
        op: Op = (
            Create(keys.SHUTDOWN, value)
            if found is None
            else Put(keys.SHUTDOWN, value, found.version)
        )
        await commit_or_read_back(
            self._leadership, [op], key=keys.SHUTDOWN, is_ours=lambda there: there == value
        )
