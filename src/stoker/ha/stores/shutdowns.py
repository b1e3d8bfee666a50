"""The shutdown of the whole cluster: a user asks for it, and every leader drives it to its end.

The record stays when the cluster is over, because a process that lost contact must still learn of
the shutdown when it is back. But a process that belongs to the next cluster must not end because
of it. So each shutdown has a nonce, and a process ignores the one that was already over when the
process began.
"""

import asyncio
import logging
from enum import StrEnum

from stoker.core.errors import CorruptContent, NoSuchKey, VersionMismatch
from stoker.core.failpoints import failpoint
from stoker.core.ids import Ids
from stoker.core.states import ApplicationStatus
from stoker.core.values import Millis
from stoker.ha import keys
from stoker.ha.coordinator import Coordinator, Create, Delete, Op, Put, Versioned, Watch
from stoker.ha.follow import follow
from stoker.ha.leadership import Leadership
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.ha.stores.fenced import commit_or_read_back

log = logging.getLogger(__name__)


class ShutdownStage(StrEnum):
    ENDING = "ending"
    """Every leader ends the jobs; the cluster is over when they have ended."""
    OVER = "over"
    """Every process of the cluster ends."""


class ShutdownRecord(StoredRecord, frozen=True, kw_only=True):
    """Value of `shutdown`."""

    nonce: str
    """Identifies this shutdown."""
    status: ApplicationStatus
    at: Millis
    """When the user asked for it."""
    stage: ShutdownStage = ShutdownStage.ENDING


def decode_or_none(found: Versioned | None) -> ShutdownRecord | None:
    """The record; None also for a record that cannot be read, which must not end any process."""
    if found is None:
        return None
    try:
        return decode_record(found.value, ShutdownRecord, keys.SHUTDOWN)
    except CorruptContent as error:
        log.error("%s; the record is ignored", error)
        return None


class ShutdownStore:
    """Writes under one leadership: the coordinator refuses those of an earlier leader.

    The caller runs one method at a time.
    """

    def __init__(self, leadership: Leadership, ids: Ids) -> None:
        self._leadership = leadership
        self._coordinator = leadership.coordinator
        self._ids = ids

    async def get(self) -> ShutdownRecord | None:
        return decode_or_none(await self._coordinator.read(keys.SHUTDOWN))

    async def ask(self, status: ApplicationStatus, *, at: Millis) -> ShutdownRecord:
        """Record the request durably. When there is one already, the first one counts.

        ConnectionLost means that the outcome is unknown: ask again.
        """
        found = await self._coordinator.read(keys.SHUTDOWN)
        known = decode_or_none(found)
        if known is not None and known.stage is ShutdownStage.ENDING:
            return known
        record = ShutdownRecord(nonce=self._ids.nonce(), status=status, at=at)
        failpoint("shutdown.before-record")
        await self._write(found, encode(record))
        failpoint("shutdown.after-record")
        return record

    async def complete(self, record: ShutdownRecord) -> None:
        """Declare the cluster over, so that all its processes end. Idempotent."""
        # The read below must see the version of the last write.
        await self._coordinator.sync()
        found = await self._coordinator.read(keys.SHUTDOWN)
        over = ShutdownRecord(
            nonce=record.nonce, status=record.status, at=record.at, stage=ShutdownStage.OVER
        )
        if found is not None and found.value == encode(over):
            return
        failpoint("shutdown.before-over")
        await self._write(found, encode(over))
        failpoint("shutdown.after-over")

    async def forget(self) -> None:
        """Remove a shutdown that nobody completed in time. Idempotent."""
        found = await self._coordinator.read(keys.SHUTDOWN)
        if found is None:
            return
        failpoint("shutdown.before-forgetting")
        try:
            await self._leadership.commit([Delete(keys.SHUTDOWN, found.version)])
        except (NoSuchKey, VersionMismatch) as error:
            log.info("the shutdown was removed before: %s", error)
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


class ShutdownFollower:
    """Tells a process that its cluster is over.

    It lives as long as the process, across all its sessions with the coordinator.
    """

    def __init__(self) -> None:
        self._nonce_before: str | None = None
        """The shutdown that was over before this process began, if any."""
        self._has_begun = asyncio.Event()
        self.over = asyncio.Event()
        """Set when the cluster, and so this process, has to end."""
        self.last: ShutdownRecord | None = None
        """The shutdown that ended the cluster."""

    async def concerns(self, record: ShutdownRecord) -> bool:
        """Whether the shutdown was not over yet when this process began."""
        await self._has_begun.wait()
        return record.nonce != self._nonce_before

    async def run(self, coordinator: Coordinator) -> None:
        """Follow the record until the coordinator's session is over."""

        # `follow` synchronizes before the first read. An old answer would hide a shutdown that was
        # already over, and so end this process later.
        async def read(watch: Watch) -> None:
            self._update(decode_or_none(await coordinator.read(keys.SHUTDOWN, watch=watch)))

        await follow(coordinator, read, subject="the shutdown of the cluster")

    def _update(self, record: ShutdownRecord | None) -> None:
        if record is not None and record.stage is ShutdownStage.OVER:
            if not self._has_begun.is_set():
                self._nonce_before = record.nonce
            elif record.nonce != self._nonce_before and not self.over.is_set():
                log.info("the cluster was shut down as %s: this process ends", record.status)
                self.last = record
                self.over.set()
        self._has_begun.set()
