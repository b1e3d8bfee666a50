"""The coordinator contract: small versioned records that all processes of a cluster share.

The contract is narrow on purpose, so that ZooKeeper, an SQLite file on one machine, and the memory
of a simulation can all fulfil it honestly. It knows nothing of jobs. Leader election, retrieval and
every store are written once, on top of it, and run on each implementation.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class ConnectionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """Contact is lost, but the session may still live: decide nothing and write nothing."""
    LOST = "lost"
    """The session is over; its ephemeral keys are removed. This state is final."""


@dataclass(frozen=True, kw_only=True)
class Versioned:
    value: bytes
    version: int
    """0 at creation, plus one with each write. A deleted key starts again at 0."""
    owner: str | None = None
    """Id of the session that owns an ephemeral key; None for other keys."""


@dataclass(frozen=True)
class Check:
    """Condition: the key exists and has this version."""

    key: str
    version: int


@dataclass(frozen=True)
class Create:
    """Condition: the key does not exist. Effect: it does, at version 0."""

    key: str
    value: bytes
    ephemeral: bool = False


@dataclass(frozen=True)
class Put:
    """Condition: the key exists (at this version, unless None). Effect: it has the value."""

    key: str
    value: bytes
    version: int | None = None


@dataclass(frozen=True)
class Delete:
    """Condition: the key exists (at this version, unless None). Effect: it is gone."""

    key: str
    version: int | None = None


Op = Check | Create | Put | Delete


class Watch:
    """Fires once: at the first change after the read that set it, or when contact is lost.

    It may also fire without a change, so read again after it has fired. Drivers hold a watch by a
    weak reference: a watch that nobody waits for any more needs no removal.
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
    """One session with the coordinator.

    Keys are paths such as `jobs/3f…`; parents need not exist beforehand. A key with a value never
    has keys below it, and vice versa. A driver may keep empty parents for a while, so `children`
    may name a part below which there is nothing. Values have at most 512 KiB (TooLarge). A key
    that breaks these rules is refused with InvalidInput.

    Every read and write may raise CoordinatorUnavailable (surely not applied; always when
    SUSPENDED) and SessionExpired (after LOST; surely not applied). `commit` may also raise
    ConnectionLost: its outcome is unknown, so `sync` after reconnecting and read back what is
    there. The outcome of a `commit` that is cancelled on the way is unknown too. No call takes
    much longer than a session timeout.

    An *auto-renewing* coordinator opens a new session when one ends. It is SUSPENDED in between,
    and LOST only when closed; its `session` changes. It is for users that own no ephemeral keys,
    because these are removed with each session: it refuses to create them with InvalidInput.
    """

    @property
    def session(self) -> str:
        """Id of this session, as in `Versioned.owner`."""
        ...

    @property
    def session_timeout(self) -> float:
        """Seconds after which the session of a silent client ends; infinite if it never ends."""
        ...

    @property
    def last_contact(self) -> float:
        """Loop time at which the session surely lived: when the last answered request was sent.

        The session lives at least until `session_timeout` after it.
        """
        ...

    @property
    def tolerates_suspension(self) -> bool:
        """Whether a leadership, and the knowledge of a leader, survives SUSPENDED.

        It survives for at most a session timeout after the last contact: from then on, another
        process may lead.
        """
        ...

    @property
    def state(self) -> ConnectionState: ...

    async def wait_for_state_other_than(self, known: ConnectionState) -> ConnectionState:
        """Return the state as soon as it differs from the known one."""
        ...

    async def read(self, key: str, *, watch: Watch | None = None) -> Versioned | None:
        """The value, or None when there is no such key; the watch is set in either case.

        The value may be older than another client's last write, unless `sync` came before.
        """
        ...

    async def children(self, key: str, *, watch: Watch | None = None) -> list[str]:
        """The names directly below: the next part of every key that begins with this one, sorted.

        The watch fires when a child comes or goes, not when a child's value changes.
        """
        ...

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        """Apply all operations or none; return each key's version afterwards (-1 if deleted).

        Each operation sees the effects of those before it. When the condition of one is not met,
        nothing is applied, and the first such operation raises KeyExists, NoSuchKey or
        VersionMismatch, whose facts name the key.
        """
        ...

    async def sync(self) -> None:
        """Make later reads see every write that was acknowledged to any client before this call."""
        ...

    async def close(self) -> None:
        """End the session, with its ephemeral keys. The state becomes LOST."""
        ...
