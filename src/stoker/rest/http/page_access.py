"""Callers who use the web page: their cookie instead of a token, and what it may not be used for.

A browser adds the cookie to each request to this host, whichever page makes it. So a request with a
cookie that changes something must come from a page of this server (`Origin`) and carry a header
that no form and no link can send. A GET request that changes something is refused.
"""

import secrets
from collections.abc import Mapping
from datetime import timedelta
from http.cookies import CookieError, SimpleCookie
from typing import Final

from stoker.aio.retry import Backoff, retry
from stoker.core.errors import KeyExists, NotFound, StorageUnavailable, Unavailable
from stoker.core.values import Millis
from stoker.security.page_sessions import LIFETIME_MS, PageSession, SessionKey
from stoker.security.tokens import Permission
from stoker.storage.contract import Storage

PAGE_HEADER: Final = b"stoker-page"
KEY_FILE: Final = "page-session-key"
_KEY_BYTES = 32
_RETRIES = Backoff(initial=timedelta(seconds=1), maximum=timedelta(seconds=30))
_LONGEST_COOKIES = 16_000
_READING = ("GET", "HEAD")
_CHANGES = (Permission.SUBMIT, Permission.CONTROL)
"""What some GET requests of Flink's do. To read the audit log is no change."""


class PageSessions:
    """Reads and writes the cookies of a cluster, as soon as its key is known."""

    def __init__(self, key: SessionKey | None = None) -> None:
        self._key = key

    async def load(self, storage: Storage) -> None:
        """Read the key from the storage, however long that is away."""
        self._key = await retry(
            lambda: read_or_make_key(storage), on=StorageUnavailable, backoff=_RETRIES
        )

    @property
    def key(self) -> SessionKey:
        """Raises Unavailable while the key is not known."""
        if self._key is None:
            raise Unavailable("the key of page sessions is still being read; try again")
        return self._key

    def find(self, cookies: str | None, now: Millis, *, is_secure: bool) -> PageSession | None:
        if self._key is None or not cookies or len(cookies) > _LONGEST_COOKIES:
            return None
        try:
            found = SimpleCookie(cookies).get(self._key.cookie_name(is_secure=is_secure))
        except CookieError:
            return None
        return None if found is None else self._key.read(found.value, now)

    def cookie_of(self, session: PageSession, now: Millis, *, is_secure: bool) -> str:
        """The value of the header Set-Cookie."""
        seconds = max(0, min(session.until - now, LIFETIME_MS) // 1000)
        return self._header(self.key.sign(session), seconds, is_secure)

    def removed_cookie(self, *, is_secure: bool) -> str:
        return self._header("", 0, is_secure)

    def _header(self, value: str, seconds: int, is_secure: bool) -> str:
        name = self.key.cookie_name(is_secure=is_secure)
        secure = "; Secure" if is_secure else ""
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def find_page_refusal(method: str, needs: Permission, headers: Mapping[bytes, bytes]) -> str | None:
    """Why a request with a cookie instead of a token is refused; None if it is not."""
    if method in _READING:
        if needs in _CHANGES:
            return "a GET request that changes something needs a token, not the session of a page"
        return None
    if b"origin" not in headers or headers.get(PAGE_HEADER) != b"1":
        return (
            "a change with the session of a page must come from the page itself, with the headers "
            "Origin and Stoker-Page: 1; other clients use a token"
        )
    return None


async def read_or_make_key(storage: Storage) -> SessionKey:
    """The key of the cluster. Of several masters that need it first, one makes it.

    Raises StorageUnavailable.
    """
    try:
        return SessionKey(await storage.read(KEY_FILE))
    except NotFound:
        made = secrets.token_hex(_KEY_BYTES).encode()
    try:
        await storage.create(KEY_FILE, made)
    except KeyExists:
        made = await storage.read(KEY_FILE)
    return SessionKey(made)
