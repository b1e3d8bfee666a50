"""Sessions of the web page: what a browser shows instead of a token.

A browser sends a cookie to all ports of a host, so the cookie must not be the token. It names the
token and an end, and is signed with a key that all masters read from the storage: every master
accepts it, also after a change of the leader, and nobody else can make one. A session ends with its
token: at once when that is revoked, and no later than it expires.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from stoker.core.values import Millis
from stoker.security.tokens import Token

LIFETIME_MS: Final = timedelta(hours=12) // timedelta(milliseconds=1)
_FORM = re.compile(r"([\w-]{1,64})\.([0-9]{1,16})\.([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class PageSession:
    token_id: str
    until: Millis

    def is_half_over(self, now: Millis) -> bool:
        return self.until - now < LIFETIME_MS // 2


def begin_session(token: Token, now: Millis) -> PageSession:
    """A new session of the holder of this token."""
    until = now + LIFETIME_MS
    return PageSession(
        token_id=token.id,
        until=until if token.expires_ms is None else min(until, token.expires_ms),
    )


@dataclass(frozen=True)
class SessionKey:
    key: bytes = field(repr=False)

    def cookie_name(self, *, is_secure: bool) -> str:
        """Clusters on one host share its cookies, so each has a name of its own.

        With the prefix, browsers accept the cookie over TLS alone, and from this host alone.
        """
        cluster = hashlib.sha256(b"cookie " + self.key).hexdigest()[:12]
        return f"__Host-stoker-{cluster}" if is_secure else f"stoker-{cluster}"

    def sign(self, session: PageSession) -> str:
        """The value of the cookie."""
        signed = f"{session.token_id}.{session.until}"
        return f"{signed}.{self._signature(signed)}"

    def read(self, cookie: str, now: Millis) -> PageSession | None:
        """The session of a cookie; None if it has ended, or if no master has signed it."""
        form = _FORM.fullmatch(cookie)
        if form is None:
            return None
        token_id, until, signature = form.groups()
        if not hmac.compare_digest(signature, self._signature(f"{token_id}.{until}")):
            return None
        return PageSession(token_id=token_id, until=int(until)) if now < int(until) else None

    def _signature(self, signed: str) -> str:
        return hmac.new(self.key, signed.encode(), "sha256").hexdigest()
