"""The coordinator over ZooKeeper.

kazoo runs the protocol in threads of its own; `link` is the only place where these meet the loop.
A write that was not answered has an unknown outcome, and a session that ended is never continued.
This module reports both as the coordinator contract says, so that everything above it works the
same on every implementation.
"""

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar, assert_never

from kazoo.exceptions import KazooException, NoNodeError

from stoker.aio.latest import Latest
from stoker.core.errors import (
    CoordinatorUnavailable,
    InvalidOption,
    SessionExpired,
    TooLarge,
    Unavailable,
)
from stoker.ha.coordinator import Check, ConnectionState, Create, Delete, Op, Put, Versioned, Watch
from stoker.ha.transaction import check_size, checked_key, refuse_ephemeral
from stoker.ha.zookeeper.failures import (
    failure_of,
    failure_of_write,
    is_beside_the_point,
    refusal_of,
    session_over,
)
from stoker.ha.zookeeper.folders import Folders
from stoker.ha.zookeeper.link import Link, owner_text
from stoker.ha.zookeeper.location import Location, Paths, name_of
from stoker.ha.zookeeper.options import AccessControl, ZooKeeperOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

PROBES_PER_SESSION: Final = 6
"""How often contact is proved within a session timeout when no other call proves it."""
RETRY_SECONDS: Final = 1.0
_TRIES: Final = 5


class ZooKeeperCoordinator:
    """Created by `open`."""

    def __init__(
        self, location: Location, options: ZooKeeperOptions, *, auto_renewing: bool
    ) -> None:
        self._location = location
        self._options = options
        self._auto_renewing = auto_renewing
        self._paths = Paths(location.root)
        self._state = Latest(ConnectionState.SUSPENDED)
        self._watches: dict[str, list[weakref.ref[Watch]]] = {}
        self._link: Link | None = None
        self._session_timeout = options.session_timeout.total_seconds()
        self._last_contact = asyncio.get_running_loop().time()
        self._keeper: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(
        cls, location: Location, options: ZooKeeperOptions, *, auto_renewing: bool = False
    ) -> "ZooKeeperCoordinator":
        coordinator = cls(location, options, auto_renewing=auto_renewing)
        try:
            await coordinator._begin_session()
            if options.acl is AccessControl.CREATOR:
                await coordinator._report_open_nodes()
        except BaseException:
            await coordinator.close()
            raise
        coordinator._keeper = asyncio.create_task(
            coordinator._keep_contact(), name="coordinator/contact"
        )
        return coordinator

    @property
    def session(self) -> str:
        return self._link.session if self._link else ""

    @property
    def session_timeout(self) -> float:
        return self._session_timeout

    @property
    def tolerates_suspension(self) -> bool:
        return self._options.tolerates_suspension

    @property
    def last_contact(self) -> float:
        return self._last_contact

    @property
    def state(self) -> ConnectionState:
        return self._state.value

    async def wait_for_state_other_than(self, known: ConnectionState) -> ConnectionState:
        return await self._state.wait_for_change(known)

    async def read(self, key: str, *, watch: Watch | None = None) -> Versioned | None:
        path = self._paths.of_key(checked_key(key))

        async def get(link: Link) -> Versioned | None:
            value, stat = await link.call(
                lambda client: client.get_async(path, self._watcher(watch))
            )
            owner = owner_text(stat.ephemeralOwner) if stat.ephemeralOwner else None
            return Versioned(value=value or b"", version=stat.version, owner=owner)

        return await self._read_with_watch(f"reading {key}", path, get, watch, absent=None)

    async def children(self, key: str, *, watch: Watch | None = None) -> list[str]:
        path = self._paths.of_folder(checked_key(key))

        async def list_nodes(link: Link) -> list[str]:
            nodes = await link.call(
                lambda client: client.get_children_async(path, self._watcher(watch))
            )
            return sorted({name_of(node) for node in nodes})

        return await self._read_with_watch(f"listing {key}", path, list_nodes, watch, absent=[])

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        ops = tuple(ops)
        check_limits(ops, auto_renewing=self._auto_renewing)
        link = self._usable_link()
        if not ops:
            return []
        folders = Folders(link, self._paths)
        with self._failures_of("preparing a write"):
            await folders.check_places(ops)
        for _ in range(_TRIES):
            answers = await self._write(link, ops)
            failed = first_failure(answers)
            if failed is None:
                folders.prune(ops)
                return [version_after(op, got) for op, got in zip(ops, answers, strict=True)]
            op, error = ops[failed], answers[failed]
            if not (isinstance(op, Create) and isinstance(error, NoNodeError)):
                raise refusal_of(op, error)
            # The folder is missing, or was removed just now.
            with self._failures_of("preparing a write"):
                await folders.make_for(ops)
        raise CoordinatorUnavailable(
            f"others kept removing the folder of {op.key} while it was created; try again"
        )

    async def sync(self) -> None:
        link, asked = self._usable_link(), asyncio.get_running_loop().time()
        with self._failures_of("synchronizing"):
            await link.call(lambda client: client.sync_async(self._paths.root))
        self._note_contact(asked)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._show(ConnectionState.LOST)
        try:
            if self._keeper is not None:
                await self._end_keeper(self._keeper)
        finally:
            if self._link is not None:
                await self._link.end()

    async def _end_keeper(self, keeper: asyncio.Task[None]) -> None:
        keeper.cancel()
        # Unlike awaiting the task, this raises the cancellation of the caller only.
        await asyncio.wait([keeper])
        if not keeper.cancelled():
            keeper.result()

    async def _read_with_watch(
        self,
        what: str,
        path: str,
        ask: Callable[[Link], Coroutine[Any, Any, T]],
        watch: Watch | None,
        *,
        absent: T,
    ) -> T:
        link = self._usable_link()
        if watch is not None:
            # Register before asking, because the event may overtake the answer.
            self._add(path, watch)
        watcher = self._watcher(watch)
        with self._failures_of(what):
            for _ in range(_TRIES):
                with contextlib.suppress(NoNodeError):
                    return await ask(link)
                if watch is None:
                    return absent
                # Only `exists` sets a watch on a node that does not exist.
                if await link.call(lambda client: client.exists_async(path, watcher)) is None:
                    return absent
        raise CoordinatorUnavailable(
            f"{what} failed: the key is created and deleted too often; try again"
        )

    async def _write(self, link: Link, ops: Sequence[Op]) -> list[Any]:
        asked = asyncio.get_running_loop().time()
        try:
            answers = await link.call(lambda client: commit_async(client, ops, self._paths))
        except (KazooException, TimeoutError) as error:
            raise failure_of_write(error) from error
        self._note_contact(asked)
        return list(answers)

    @contextlib.contextmanager
    def _failures_of(self, what: str) -> Iterator[None]:
        try:
            yield
        except (KazooException, TimeoutError) as error:
            raise failure_of(error, what) from error

    def _usable_link(self) -> Link:
        if self._closed or self.state is ConnectionState.LOST:
            raise session_over()
        if self._link is None or self.state is not ConnectionState.CONNECTED:
            raise CoordinatorUnavailable(
                f"no contact with ZooKeeper at {self._location}; try again later"
            )
        return self._link

    def _note_contact(self, asked: float) -> None:
        """Count the time of the request: its answer may have waited while this process slept."""
        self._last_contact = max(self._last_contact, asked)

    async def _begin_session(self) -> None:
        asked = asyncio.get_running_loop().time()
        link = await Link.open(
            self._location, self._options, report_state=self._on_state, report_event=self._fire
        )
        try:
            with self._failures_of(f"making {self._location.root}"):
                await Folders(link, self._paths).make_root()
                await link.call(lambda client: client.sync_async(self._paths.root))
        except BaseException:
            await link.end()
            raise
        self._link = link
        self._session_timeout = link.session_timeout
        self._note_contact(asked)
        self._on_state(link.state)

    async def _report_open_nodes(self) -> None:
        """ACLs hold for new nodes only: older ones may still be open."""
        with self._failures_of(f"reading who may use {self._location.root}"):
            found = await Folders(self._usable_link(), self._paths).find_open_nodes()
        if found:
            log.warning(
                "every client of ZooKeeper may use these nodes, which were made without "
                "high-availability.zookeeper.client.acl: %s; change them with ZooKeeper's command "
                "line: addauth, then setAcl -R %s auth::cdrwa",
                ", ".join(found),
                self._location.root,
            )

    def _on_state(self, state: ConnectionState) -> None:
        if self._link is None or self._closed:
            return
        lost = self._link.state is ConnectionState.LOST
        self._show(ConnectionState.SUSPENDED if lost and self._auto_renewing else state)

    def _show(self, state: ConnectionState) -> None:
        self._state.set(state)
        if state is not ConnectionState.CONNECTED:
            watches, self._watches = self._watches, {}
            for references in watches.values():
                _fire_all(references)

    async def _keep_contact(self) -> None:
        """Prove contact regularly, and renew the session of an auto-renewing coordinator."""
        while self.state is not ConnectionState.LOST:
            assert self._link is not None
            if self._link.state is ConnectionState.LOST:
                await self._begin_next_session(self._link)
            known = self.state
            if known is ConnectionState.CONNECTED:
                with contextlib.suppress(Unavailable, SessionExpired):
                    await self.sync()
            self._drop_unused_watches()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._session_timeout / PROBES_PER_SESSION):
                    await self.wait_for_state_other_than(known)

    async def _begin_next_session(self, old: Link) -> None:
        await old.end()
        while True:
            try:
                await self._begin_session()
            # The servers may also refuse the credentials for a while (InvalidOption).
            except (Unavailable, SessionExpired, InvalidOption) as error:
                log.warning("no session with ZooKeeper yet: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    def _watcher(self, watch: Watch | None) -> Any:
        return self._link.watcher() if watch is not None and self._link is not None else None

    def _add(self, path: str, watch: Watch) -> None:
        waiting = [reference for reference in self._watches.get(path, []) if _waits(reference)]
        self._watches[path] = [*waiting, weakref.ref(watch)]

    def _drop_unused_watches(self) -> None:
        waiting = {
            path: [reference for reference in references if _waits(reference)]
            for path, references in self._watches.items()
        }
        self._watches = {path: references for path, references in waiting.items() if references}

    def _fire(self, path: str) -> None:
        _fire_all(self._watches.pop(path, []))


def _waits(reference: "weakref.ref[Watch]") -> bool:
    watch = reference()
    return watch is not None and not watch.has_fired


def _fire_all(references: "list[weakref.ref[Watch]]") -> None:
    for reference in references:
        watch = reference()
        if watch is not None:
            watch.fire()


MAX_TRANSACTION_BYTES: Final = 1_000_000
"""The servers close the connection at a request of a mebibyte, keys and overhead included."""

_ANY: Final = -1
_NEVER: Final = 2**31 - 1
"""A version that no node reaches."""


def check_limits(ops: Sequence[Op], *, auto_renewing: bool) -> None:
    """Refuse what can be refused without asking the servers."""
    if auto_renewing:
        refuse_ephemeral(ops)
    for op in ops:
        checked_key(op.key)
        if isinstance(op, Create | Put):
            check_size(op.key, op.value)
    size = sum(len(op.value) for op in ops if isinstance(op, Create | Put))
    if size > MAX_TRANSACTION_BYTES:
        raise TooLarge(
            f"a transaction writes {size} bytes, more than {MAX_TRANSACTION_BYTES}; "
            "keep big content in the storage and a pointer here"
        )


def commit_async(client: Any, ops: Sequence[Op], paths: Paths) -> Any:
    """Send the transaction; the pending answer of the KazooClient."""
    transaction = client.transaction()
    for op in ops:
        path = paths.of_key(op.key)
        match op:
            case Check(_, version):
                transaction.check(path, _node_version(version))
            case Create(_, value, ephemeral):
                transaction.create(path, value, ephemeral=ephemeral)
            case Put(_, value, version):
                transaction.set_data(path, value, _node_version(version))
            case Delete(_, version):
                transaction.delete(path, _node_version(version))
            case _:
                assert_never(op)
    return transaction.commit_async()


def first_failure(answers: Sequence[Any]) -> int | None:
    """Index of the operation because of which nothing was applied; None if all succeeded."""
    failed = [number for number, answer in enumerate(answers) if isinstance(answer, Exception)]
    telling = [number for number in failed if not is_beside_the_point(answers[number])]
    return next(iter([*telling, *failed]), None)


def version_after(op: Op, answer: Any) -> int:
    match op:
        case Check(_, version):
            return version
        case Create():
            return 0
        case Put():
            return int(answer.version)
        case Delete():
            return -1
        case _:
            assert_never(op)


def _node_version(version: int | None) -> int:
    """ZooKeeper takes -1 for any version; here it is a version that no key has."""
    if version is None:
        return _ANY
    return version if version >= 0 else _NEVER
