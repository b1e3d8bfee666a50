"""The coordinator contract: small versioned records that all processes of a cluster share.

Narrow on purpose, so that ZooKeeper, one machine's SQLite file and a simulation's memory can all
keep it honestly. It knows nothing of jobs. Election, retrieval and every store are written once
above it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class ConnectionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """Contact is lost, the session may live on: decide and write nothing."""
    LOST = "lost"
    """The session is over, its ephemeral keys are gone or will go. Final for this object."""


@dataclass(frozen=True, kw_only=True)
class Versioned:
    value: bytes
    version: int
    """0 at creation, plus one with each write. A key that was deleted starts again at 0."""
    owner: str | None = None
    """Session id, for an ephemeral key."""


@dataclass(frozen=True)
class Check:
    """The key exists and is at this version."""

    key: str
    version: int


@dataclass(frozen=True)
class Create:
    """The key does not exist; it does afterwards, at version 0."""

    key: str
    value: bytes
    ephemeral: bool = False


@dataclass(frozen=True)
class Put:
    """The key exists (at this version unless None); it gets the value."""

    key: str
    value: bytes
    version: int | None = None


@dataclass(frozen=True)
class Delete:
    """The key exists (at this version unless None); it goes."""

    key: str
    version: int | None = None


Op = Check | Create | Put | Delete


class Watch:
    """Fires once: at the first change after the read that set it, or when contact is lost.

    It may fire without a change: whoever waited looks again.
    Drivers hold it weakly: whoever waits no more need not say so.
    """

    def __init__(self) -> None:
        self._fired = asyncio.Event()

    @property
    def has_fired(self) -> bool:
        return self._fired.is_set()

    def fire(self) -> None:
        self._fired.set()

    async def wait(self) -> None:
        await self._fired.wait()


class Coordinator(Protocol):
    """One session. Keys are paths such as `jobs/3f…`; parents need not exist beforehand.

    A key that holds a value never has keys below it, and the other way round, at any time: a
    driver may keep empty parents for a while, so `children` may name a part below which there is
    nothing. Values are at most 512 KiB (TooLarge). A key that breaks these rules is refused with
    InvalidInput.

    All methods may raise CoordinatorUnavailable (surely not applied, as always when SUSPENDED),
    SessionExpired (after LOST; surely not applied) and, for `commit`, ConnectionLost: the outcome
    is unknown, read back after reconnecting, with `sync` first. A `commit` that is cancelled while
    under way has an unknown outcome too. No call takes much longer than a session timeout.

    An *auto-renewing* coordinator opens a new session when one ends. It is SUSPENDED in between,
    and LOST only when closed; its `session` changes. It is for users without ephemeral keys, which
    would go with each session: it refuses to create them with InvalidInput.
    """

    @property
    def session(self) -> str:
        """Id of this session, as it stands in `Versioned.owner`."""
        ...

    @property
    def session_timeout(self) -> float:
        """Seconds after which the session of a silent client ends; infinite if it never does."""
        ...

    @property
    def last_contact(self) -> float:
        """Loop time at which the session was alive for sure: that of the last question to which
        the coordinator has answered. So the session lives until `session_timeout` after it."""
        ...

    @property
    def tolerates_suspension(self) -> bool:
        """Whether who leads, and who is known to lead, outlives SUSPENDED.

        Never for longer than a session timeout after the last contact: until then nobody else
        can lead.
        """
        ...

    @property
    def state(self) -> ConnectionState: ...

    async def wait_for_state_other_than(self, known: ConnectionState) -> ConnectionState:
        """The state, as soon as it differs from the known one."""
        ...

    async def read(self, key: str, *, watch: Watch | None = None) -> Versioned | None:
        """The value, or None when there is no such key; the watch is set in either case.

        May be older than another client's last write until `sync` (as with ZooKeeper).
        """
        ...

    async def children(self, key: str, *, watch: Watch | None = None) -> list[str]:
        """Names right below: the next part of every key that begins with this one, sorted.

        The watch fires when a child comes or goes, not when a child's value changes.
        """
        ...

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        """All or nothing. Answers the version that each op's key has afterwards (-1 if deleted).

        Ops hold one after the other: each sees what those before it did. Raises for the first one
        that does not hold, with nothing applied: KeyExists, NoSuchKey or VersionMismatch, whose
        facts name the key.
        """
        ...

    async def sync(self) -> None:
        """Reads after this see every write that was acknowledged to anyone before it."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral keys go at once. State becomes LOST."""
        ...
