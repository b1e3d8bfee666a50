"""Which masters there are, as far as the coordinator could last tell.

Each master keeps an ephemeral key with its address. What was last seen is kept when contact with
the coordinator is lost, because that is when it is needed: see the failsafe of leases.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from stoker.aio.retry import Backoff
from stoker.core.errors import CorruptContent, KeyExists, NoSuchKey, SessionExpired, Unavailable
from stoker.core.ids import ResourceId
from stoker.ha import keys
from stoker.ha.contact import wait_for_contact
from stoker.ha.coordinator import Coordinator, Create, Delete, Watch
from stoker.ha.record import StoredRecord, decode_record, encode

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(initial=timedelta(seconds=0.2), maximum=timedelta(seconds=5))


class MasterRecord(StoredRecord, frozen=True, kw_only=True):
    """What `masters/<resource id>` says."""

    resource_id: ResourceId
    address: str
    """Of the process's RPC service."""


class MasterDirectory:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.known: dict[ResourceId, str] = {}
        """Address of each master; the last that was seen, also while contact is lost."""

    async def run(self) -> None:
        """Follow until the coordinator's session is over."""
        failures = 0
        while True:
            try:
                await self._follow()
                failures = 0
            except Unavailable as error:
                log.info("the list of masters cannot be read: %s", error)
                await asyncio.sleep(BACKOFF.delay(failures).total_seconds())
                failures += 1

    async def announce(self, resource_id: ResourceId, address: str) -> None:
        """Keep the master's own key until cancelled, then withdraw it."""
        key = keys.master(resource_id)
        value = encode(MasterRecord(resource_id=resource_id, address=address))
        try:
            while True:
                await wait_for_contact(self._coordinator)
                watch = Watch()
                try:
                    await self._assert(key, value, watch)
                except Unavailable as error:
                    log.info("this master is not announced yet: %s", error)
                    await asyncio.sleep(BACKOFF.delay(0).total_seconds())
                    continue
                await watch.wait()
        finally:
            await self._withdraw(key)

    async def _assert(self, key: str, value: bytes, watch: Watch) -> None:
        found = await self._coordinator.read(key, watch=watch)
        ours = found is not None and found.owner == self._coordinator.session
        if ours and found is not None and found.value == value:
            return
        try:
            # A key of a former life under the same id is replaced.
            removal = [Delete(key, found.version)] if found is not None else []
            await self._coordinator.commit([*removal, Create(key, value, ephemeral=True)])
        except (KeyExists, NoSuchKey) as error:
            log.info("announced by somebody else meanwhile: %s", error)

    async def _withdraw(self, key: str) -> None:
        try:
            found = await self._coordinator.read(key)
            if found is not None and found.owner == self._coordinator.session:
                await self._coordinator.commit([Delete(key, found.version)])
        except (Unavailable, SessionExpired, NoSuchKey) as error:
            log.info("this master was not withdrawn: %s", error)

    async def _follow(self) -> None:
        await wait_for_contact(self._coordinator)
        watch = Watch()
        names = await self._coordinator.children(keys.MASTERS, watch=watch)
        seen: dict[ResourceId, str] = {}
        for name in names:
            found = await self._coordinator.read(f"{keys.MASTERS}/{name}")
            if found is not None:
                record = self._understood(found.value, name)
                seen |= {record.resource_id: record.address} if record else {}
        self.known = seen
        await watch.wait()

    def _understood(self, value: bytes, name: str) -> MasterRecord | None:
        try:
            return decode_record(value, MasterRecord, f"{keys.MASTERS}/{name}")
        except CorruptContent as error:
            log.warning("%s; it is left out", error)
            return None
