"""The directory of masters: each master keeps an ephemeral key with its address.

A task executor needs the addresses most when the coordinator is out of reach: then it asks the
masters directly whether its attempts may continue (the failsafe of the leases). So the list that
was read last is kept while contact is lost.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from stoker.core.errors import (
    CorruptContent,
    KeyExists,
    NoSuchKey,
    SessionExpired,
    Unavailable,
    VersionMismatch,
)
from stoker.core.ids import ResourceId
from stoker.ha import keys
from stoker.ha.coordinator import Coordinator, Create, Delete, Watch
from stoker.ha.follow import follow, wait_until_connected
from stoker.ha.record import StoredRecord, decode_record, encode

log = logging.getLogger(__name__)

RETRY_PAUSE: Final = timedelta(seconds=0.2)
TAKEOVER_PAUSE: Final = timedelta(seconds=1)
"""Pause after a master replaced the key of another session: two masters that were given one id
would otherwise replace each other's key without end, as fast as the coordinator can write."""


class MasterRecord(StoredRecord, frozen=True, kw_only=True):
    """Value of `masters/<resource id>`."""

    resource_id: ResourceId
    address: str
    """Address of the process's RPC service."""


class MasterDirectory:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.known: dict[ResourceId, str] = {}
        """Address of each master, as read last; kept while contact is lost."""

    async def run(self) -> None:
        """Follow the masters until the coordinator's session is over."""
        await follow(self._coordinator, self._read, subject="the list of masters")

    async def _read(self, watch: Watch) -> None:
        found: dict[ResourceId, str] = {}
        for name in await self._coordinator.children(keys.MASTERS, watch=watch):
            value = await self._coordinator.read(f"{keys.MASTERS}/{name}")
            record = _decode_or_none(value.value, name) if value is not None else None
            if record is not None:
                found[record.resource_id] = record.address
        self.known = found

    async def announce(self, resource_id: ResourceId, address: str) -> None:
        """Maintain this master's key until cancelled, then remove it."""
        key = keys.master(resource_id)
        value = encode(MasterRecord(resource_id=resource_id, address=address))
        try:
            while True:
                await wait_until_connected(self._coordinator)
                watch = Watch()
                try:
                    was_foreign = await self._ensure_key(key, value, watch)
                except Unavailable as error:
                    log.info("this master is not announced yet: %s", error)
                    await asyncio.sleep(RETRY_PAUSE.total_seconds())
                    continue
                if was_foreign:
                    await asyncio.sleep(TAKEOVER_PAUSE.total_seconds())
                await watch.wait()
        finally:
            await self._remove_key(key)

    async def _ensure_key(self, key: str, value: bytes, watch: Watch) -> bool:
        """Write the key if it is absent or different; whether another session had it."""
        found = await self._coordinator.read(key, watch=watch)
        is_foreign = found is not None and found.owner != self._coordinator.session
        if found is not None and not is_foreign and found.value == value:
            return False
        if is_foreign:
            log.info("%s is replaced: a previous or another process has the same id", key)
        try:
            removal = [Delete(key, found.version)] if found is not None else []
            await self._coordinator.commit([*removal, Create(key, value, ephemeral=True)])
        except (KeyExists, NoSuchKey, VersionMismatch) as error:
            log.info("another process announced this master meanwhile: %s", error)
        return is_foreign

    async def _remove_key(self, key: str) -> None:
        try:
            found = await self._coordinator.read(key)
            if found is not None and found.owner == self._coordinator.session:
                await self._coordinator.commit([Delete(key, found.version)])
        except (Unavailable, SessionExpired, NoSuchKey) as error:
            log.info("this master's key was not removed: %s", error)


def _decode_or_none(value: bytes, name: str) -> MasterRecord | None:
    try:
        return decode_record(value, MasterRecord, f"{keys.MASTERS}/{name}")
    except CorruptContent as error:
        log.warning("%s; this master is left out", error)
        return None
