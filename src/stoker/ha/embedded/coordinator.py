"""The coordinator of one machine: SQLite for the records, file locks for liveness.

A process that dies is noticed within two polls by those who watch its keys. One that is frozen
keeps its lock: on one machine, that is for its owner to see. The directory must be on a local
disk, since locks and shared memory are not reliable on network file systems.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Sequence
from pathlib import Path

from stoker.aio.latest import Latest
from stoker.aio.threads import BlockingThread
from stoker.core.errors import CoordinatorUnavailable, SessionExpired
from stoker.ha.coordinator import ConnectionState, Op, Versioned, Watch
from stoker.ha.embedded.machine import Machine
from stoker.ha.transaction import checked_key, refuse_ephemeral
from stoker.ha.watches import Aspect, Place, Watches

log = logging.getLogger(__name__)

POLL_SECONDS = 0.05


class EmbeddedCoordinator:
    """Made by `open`. Its session does not end by itself, so a lasting one needs no successor."""

    def __init__(self, machine: Machine, thread: BlockingThread, *, lasting: bool) -> None:
        self._lasting = lasting
        self._machine = machine
        self._thread = thread
        self._state = Latest(ConnectionState.CONNECTED)
        self._watches = Watches()
        self._own_change = asyncio.Event()
        self._observer: asyncio.Task[None] | None = None
        self._blind = False
        self._closed = False
        self._contact_until = -math.inf

    @classmethod
    async def open(
        cls, directory: Path, *, session: str, lasting: bool = False
    ) -> "EmbeddedCoordinator":
        thread = BlockingThread("coordinator")
        opening = asyncio.ensure_future(thread.run(Machine, directory, session))
        try:
            return cls(await asyncio.shield(opening), thread, lasting=lasting)
        except BaseException:
            # The thread goes on when its waiter is cancelled: do not leave a living session.
            await asyncio.wait([opening])
            if opening.exception() is None:
                await thread.run(opening.result().end)
            await thread.close()
            raise

    @property
    def session(self) -> str:
        return self._machine.session

    @property
    def session_timeout(self) -> float:
        return math.inf

    @property
    def last_contact(self) -> float:
        if self.state is ConnectionState.CONNECTED:
            return asyncio.get_running_loop().time()
        return self._contact_until

    @property
    def tolerates_suspension(self) -> bool:
        return False

    @property
    def state(self) -> ConnectionState:
        return self._state.value

    async def wait_for_state_other_than(self, known: ConnectionState) -> ConnectionState:
        return await self._state.wait_for_change(known)

    async def read(self, key: str, *, watch: Watch | None = None) -> Versioned | None:
        place = Place(Aspect.VALUE, checked_key(key))
        self._require_session()
        value, sight = await self._thread.run(self._machine.read, key)
        if watch is not None:
            self._watches.add(place, sight, watch)
            self._observe()
        return value

    async def children(self, key: str, *, watch: Watch | None = None) -> list[str]:
        place = Place(Aspect.CHILDREN, checked_key(key))
        self._require_session()
        names, sight = await self._thread.run(self._machine.children, key)
        if watch is not None:
            self._watches.add(place, sight, watch)
            self._observe()
        return names

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        if self._lasting:
            refuse_ephemeral(ops)
        self._require_session()
        try:
            return await self._thread.run(self._machine.commit, tuple(ops))
        except SessionExpired:
            self._lose()
            raise
        finally:
            self._own_change.set()

    async def sync(self) -> None:
        """Nothing to do: every read is of the one file."""
        self._require_session()
        await asyncio.sleep(0)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._lose()
        await self._end_observer()
        try:
            await self._thread.run(self._machine.end)
        except CoordinatorUnavailable as error:
            log.warning("session %s ended without removing its keys: %s", self.session, error)
        finally:
            await self._thread.close()

    def _require_session(self) -> None:
        if self.state is ConnectionState.LOST:
            raise SessionExpired(f"session {self.session} has ended; open another one")

    def _lose(self) -> None:
        self._contact_until = self.last_contact
        self._state.set(ConnectionState.LOST)
        self._watches.fire_all()

    def _observe(self) -> None:
        """Look for changes, but only while somebody waits for one."""
        if self.state is ConnectionState.LOST:
            self._watches.fire_all()
        elif self._observer is None or self._observer.done():
            self._observer = asyncio.create_task(self._look_for_changes(), name="coordinator/watch")

    async def _look_for_changes(self) -> None:
        while self.state is ConnectionState.CONNECTED:
            places = self._watches.places()
            if not places:
                return
            await self._look_once(places)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._own_change.wait()
            self._own_change.clear()

    async def _look_once(self, places: set[Place]) -> None:
        try:
            look = await self._thread.run(self._machine.look, places, self._watches.owners())
        except CoordinatorUnavailable as error:
            if not self._blind:
                log.warning("changes by others are not seen for now: %s", error)
            self._blind = True
            return
        self._blind = False
        if not look.session_valid:
            log.error("the session file of %s was removed; the session is over", self.session)
            self._lose()
        self._watches.settle(look.sights)

    async def _end_observer(self) -> None:
        if self._observer is None:
            return
        self._observer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._observer
        self._observer = None
