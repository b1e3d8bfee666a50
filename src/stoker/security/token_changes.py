"""Changes of the token file, as entries of the audit log.

Tokens are made and revoked without a master, and whoever may write the file may write anything into
it: nobody can be asked who did it. So the masters look at the file every few seconds and record
what has changed since they last looked.

What they saw last is in a file beside the audit log, so that changes made while no master ran are
recorded as well, and each change once by the masters of one machine. The file is written after the
entries: a master that dies in between leaves a change that is recorded twice.
"""

import asyncio
import fcntl
import logging
import os
from pathlib import Path

import msgspec

from stoker.aio.clock import WallClock
from stoker.core.errors import InvalidOption
from stoker.core.values import Value, decode_json
from stoker.osproc.atomic_file import write_atomically
from stoker.security.audit import AuditLog, audit_time
from stoker.security.audit_entries import AuditEntry
from stoker.security.tokens import Token, TokenFile

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
SEEN_FILE = "recorded-tokens.json"
"""Name of the file with what was recorded last, beside the audit log."""
_ADDRESS = "token file"
_OWNER_ONLY = 0o600
_FOLDER_OF_OWNER = 0o700


class _Seen(Value):
    version: int = 1
    tokens: tuple[Token, ...] = ()


class TokenChange(Value):
    action: str
    token: Token
    detail: str = ""


def find_changes(before: tuple[Token, ...], after: tuple[Token, ...]) -> list[TokenChange]:
    """Pure. What was done to the tokens, which are told apart by their ids."""
    old, new = ({token.id: token for token in tokens} for tokens in (before, after))
    revoked = [TokenChange(action="revoke token", token=old[each]) for each in old.keys() - new]
    created = [TokenChange(action="create token", token=new[each]) for each in new.keys() - old]
    changed = [
        TokenChange(action="change token", token=new[each], detail=_difference(old[each], token))
        for each, token in new.items()
        if each in old and old[each] != token
    ]
    return sorted([*revoked, *created, *changed], key=lambda each: (each.action, each.token.id))


def _difference(old: Token, new: Token) -> str:
    """The names of what differs; values only where they are no secrets."""
    shown = []
    for name in Token.__struct_fields__:
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            shown.append("the secret" if name == "sha256" else f"{name}: {was} → {now}")
    return ", ".join(shown)


class TokenChangeRecorder:
    """Follows the token file of a master."""

    def __init__(self, tokens: TokenFile, audit: AuditLog, seen: Path, clock: WallClock) -> None:
        """`tokens` is for the recorder alone; `seen` is the file with what was recorded last."""
        self._tokens = tokens
        self._audit = audit
        self._seen = seen
        self._clock = clock
        self._recorded: tuple[Token, ...] | None = None
        """The tokens as this master found them on record."""
        self._problem = ""

    async def run(self) -> None:
        while True:
            await self.record()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def record(self) -> None:
        """Record what has changed. A problem is logged once, and looked at again the next time."""
        try:
            tokens = await asyncio.to_thread(lambda: self._tokens.tokens)
            if tokens == self._recorded:
                return
            lock = await asyncio.to_thread(self._lock)
            try:
                before = await asyncio.to_thread(self._read_seen)
                for change in find_changes(before, tokens):
                    log.info("%s %s", change.action, change.token.name)
                    await self._audit.append(self._entry(change))
                await asyncio.to_thread(self._write_seen, tokens)
            finally:
                os.close(lock)
        except BlockingIOError:
            # Another master of this machine records them.
            return
        except (OSError, InvalidOption, msgspec.DecodeError) as error:
            self._report(f"changes of tokens are not recorded: {error}")
            return
        self._recorded = tokens
        self._problem = ""

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            log.error("%s", problem)
        self._problem = problem

    def _lock(self) -> int:
        self._seen.parent.mkdir(mode=_FOLDER_OF_OWNER, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        lock = os.open(self._seen.with_suffix(".lock"), flags, _OWNER_ONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        return lock

    def _read_seen(self) -> tuple[Token, ...]:
        try:
            return decode_json(self._seen.read_bytes(), _Seen).tokens
        except FileNotFoundError:
            return ()

    def _write_seen(self, tokens: tuple[Token, ...]) -> None:
        content = msgspec.json.encode(_Seen(tokens=tokens))
        write_atomically(self._seen, content, mode=_OWNER_ONLY, sync=True)

    def _entry(self, change: TokenChange) -> AuditEntry:
        return AuditEntry(
            time=audit_time(self._clock()),
            # The file does not tell who has written it.
            caller="",
            address=_ADDRESS,
            action=change.action,
            object=change.token.name,
            outcome="done",
            role=str(change.token.role),
            reason=change.detail,
        )
