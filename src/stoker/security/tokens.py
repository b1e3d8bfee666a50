"""Bearer tokens for REST, and what each role may do.

A token is shown once, when it is created. The file that all masters read holds only its hash, so
nobody can call with what the file says. Masters read the file again whenever it has changed: a new
token is accepted, and a revoked one refused, at once. A file that is damaged admits nobody.
"""

import fcntl
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import msgspec

from stoker.core.errors import InvalidInput, InvalidOption, NotFound
from stoker.core.values import Value, decode_json
from stoker.osproc.atomic_file import give_to_owner_of_directory, write_atomically
from stoker.security.submission_limits import NO_LIMITS, SubmissionLimits


class Role(StrEnum):
    """What the holder of a token may do."""

    READ = "read"
    """Every request that changes nothing."""
    SUBMIT = "submit"
    """Submit jobs and programs; see and change one's own jobs."""
    OPERATE = "operate"
    """Every request."""


class Permission(StrEnum):
    """What a route of the REST API asks of its caller."""

    OPEN = "open"
    """Read the description of the API: no token is needed."""
    QUERY = "query"
    """Read what every token may know: its own jobs, and figures of the whole cluster."""
    READ = "read"
    """Read anything."""
    SUBMIT = "submit"
    """Submit jobs and programs."""
    CONTROL = "control"
    """Change or end a job, or dispose of a savepoint: one's own, or with the role operate any."""
    OPERATE = "operate"
    """Change or end anything."""


_PERMISSIONS = {
    Role.READ: {Permission.OPEN, Permission.QUERY, Permission.READ},
    Role.SUBMIT: {Permission.OPEN, Permission.QUERY, Permission.SUBMIT, Permission.CONTROL},
    Role.OPERATE: set(Permission),
}


def allows(role: Role, permission: Permission) -> bool:
    return permission in _PERMISSIONS[role]


VERSION = 1
_PREFIX = "stk"
_OWNER_ONLY = 0o600
_ID = re.compile("[0-9a-f]{8}")


class Token(Value):
    """A token as stored: with its hash alone nobody can call."""

    id: str
    name: str
    role: Role
    sha256: str
    created_ms: int
    expires_ms: int | None = None
    limits: SubmissionLimits = NO_LIMITS
    """What the holder may submit; the defaults of the role apply where it says nothing."""

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and now_ms >= self.expires_ms


class _File(Value):
    version: int = VERSION
    tokens: tuple[Token, ...] = ()


def text_of(token_id: str, secret: str) -> str:
    """The token as the user keeps it; the id at its front identifies the stored hash."""
    return f"{_PREFIX}_{token_id}_{secret}"


def hash_of(text: str) -> str:
    # The secret is as random as a key, so a slow hash, as for passwords, would add nothing.
    return hashlib.sha256(text.encode()).hexdigest()


def find(tokens: tuple[Token, ...], text: str) -> Token | None:
    """The token that this text proves, even if it has expired."""
    parts = text.split("_", 2)
    if len(parts) != 3 or parts[0] != _PREFIX:
        return None
    given = hash_of(text)
    found = None
    for token in tokens:
        if token.id == parts[1] and hmac.compare_digest(token.sha256, given):
            found = token
    return found


def find_by_id(tokens: tuple[Token, ...], token_id: str) -> Token | None:
    return next((token for token in tokens if token.id == token_id), None)


class TokenFile:
    """The file, read again after each change, so that a revoked token is refused at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    @property
    def tokens(self) -> tuple[Token, ...]:
        """Raises InvalidOption when the file cannot be read; without a file there are no tokens."""
        try:
            stat = self._path.stat()
            # A replaced file may have the same size and, on coarse clocks, the same time.
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                self._tokens = _read(self._path)
                self._seen = seen
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise InvalidOption(
                f"the tokens in {self._path} cannot be read: {error.strerror}; the user that runs "
                f"the masters must be able to read the file, for example: chown USER {self._path}"
            ) from error
        return self._tokens

    def add(self, token: Token) -> None:
        if _ID.fullmatch(token.name):
            raise InvalidInput(
                f"{token.name} looks like the id of a token, by which tokens are revoked too; "
                "choose another name"
            )
        check_limits_of_role(token.role, token.limits)
        with self._changing() as tokens:
            if any(each.name == token.name for each in tokens):
                raise InvalidInput(
                    f"there is a token named {token.name} already; "
                    "choose another name, or revoke it first"
                )
            self._write((*tokens, token))

    def revoke(self, wanted: str) -> Token:
        """Remove a token by its id or name."""
        with self._changing() as tokens:
            token = self._find(tokens, wanted)
            self._write(tuple(each for each in tokens if each is not token))
        return token

    def limit(self, wanted: str, change: Callable[[SubmissionLimits], SubmissionLimits]) -> Token:
        """Change the limits of a token, which is named by its id or name."""
        with self._changing() as tokens:
            token = self._find(tokens, wanted)
            changed = msgspec.structs.replace(token, limits=change(token.limits))
            check_limits_of_role(changed.role, changed.limits)
            self._write(tuple(changed if each is token else each for each in tokens))
        return changed

    def _find(self, tokens: tuple[Token, ...], wanted: str) -> Token:
        for token in tokens:
            if wanted in (token.id, token.name):
                return token
        raise NotFound(f"there is no token {wanted} in {self._path}; see: stoker token list")

    @contextmanager
    def _changing(self) -> Iterator[tuple[Token, ...]]:
        """Lock the file, so that processes change it one at a time.

        Raises InvalidInput when the file cannot be locked, or not be written in the body.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = _open_lock(self._path.with_suffix(".lock"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield self.tokens
            finally:
                os.close(lock)
        except OSError as error:
            raise InvalidInput(f"{self._path} cannot be written: {error.strerror}") from error

    def _write(self, tokens: tuple[Token, ...]) -> None:
        content = msgspec.json.format(msgspec.json.encode(_File(tokens=tokens)))
        # Masters must still be able to read it, also when root has changed it.
        write_atomically(self._path, content + b"\n", mode=_OWNER_ONLY, sync=True, keep_owner=True)


def _open_lock(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Only a new file is given away: root might find a link to something else there.
        lock = os.open(path, flags | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    except FileExistsError:
        return os.open(path, flags)
    give_to_owner_of_directory(lock, path.parent)
    return lock


def check_limits_of_role(role: Role, limits: SubmissionLimits) -> None:
    if limits != NO_LIMITS and not allows(role, Permission.SUBMIT):
        raise InvalidInput(f"a token with the role {role} submits nothing, so it takes no limits")


def _read(path: Path) -> tuple[Token, ...]:
    try:
        content = decode_json(path.read_bytes(), _File)
    except msgspec.DecodeError as error:
        raise InvalidOption(f"{path} is not a file of tokens: {error}") from error
    if content.version > VERSION:
        raise InvalidOption(
            f"{path} was written by a newer Stoker (version {content.version}, known {VERSION})"
        )
    return content.tokens
