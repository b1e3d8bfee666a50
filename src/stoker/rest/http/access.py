"""Who may call, and how often."""

from dataclasses import dataclass

from stoker.aio.clock import WallClock
from stoker.rest.http.errors import ErrorAnswer
from stoker.security.roles import allows
from stoker.security.tokens import TokenFile, find


class Access:
    """Bearer tokens; a master without a file of them lets everybody in who reaches it."""

    def __init__(self, tokens: TokenFile | None, clock: WallClock) -> None:
        self._tokens = tokens
        self._clock = clock

    def refusal(self, authorization: str | None, method: str, path: str) -> ErrorAnswer | None:
        """None when the call may go on."""
        if self._tokens is None:
            return None
        if authorization is None:
            return _unknown(
                "this cluster wants a token: the header Authorization: Bearer TOKEN, or for the "
                "command line the option client.token ($STOKER_CLIENT_TOKEN)"
            )
        scheme, _, text = authorization.partition(" ")
        token = find(self._tokens.tokens, text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            return _unknown("the token is not one of this cluster, or was revoked")
        if token.is_expired(self._clock()):
            return _unknown(f"the token {token.name} has expired; create another one")
        if not allows(token.role, method, path):
            return ErrorAnswer(
                status=403,
                messages=[
                    f"the token {token.name} is for {token.role}; {method} {path} needs more"
                ],
            )
        return None


def _unknown(reason: str) -> ErrorAnswer:
    return ErrorAnswer(status=401, messages=[reason], headers={"WWW-Authenticate": "Bearer"})


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """Requests that a caller may still make; refilled by time, full at first."""

    left: float
    at: float


def taken(bucket: Bucket | None, now: float, per_second: float) -> tuple[Bucket, float]:
    """The bucket after one more request, and the seconds to wait when it was empty."""
    left = per_second if bucket is None else bucket.left + (now - bucket.at) * per_second
    left = min(left, per_second)
    if left < 1.0:
        return Bucket(left=left, at=now), (1.0 - left) / per_second
    return Bucket(left=left - 1.0, at=now), 0.0


class RateLimit:
    """So many requests a second for each caller, in bursts of as many."""

    def __init__(self, per_second: int, most_callers: int = 10_000) -> None:
        self._per_second = per_second
        self._most_callers = most_callers
        self._buckets: dict[str, Bucket] = {}

    def refusal(self, caller: str, now: float) -> ErrorAnswer | None:
        if self._per_second <= 0:
            return None
        bucket, wait = taken(self._buckets.pop(caller, None), now, self._per_second)
        # The one that was asked for last stands last; the first are forgotten first.
        self._buckets[caller] = bucket
        while len(self._buckets) > self._most_callers:
            del self._buckets[next(iter(self._buckets))]
        if wait == 0.0:
            return None
        return _too_many(f"more than {self._per_second} requests a second from {caller}", wait)


class Uploads:
    """So many at once: each keeps its files on the master's disk while it lasts."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._now = 0

    def begin(self) -> ErrorAnswer | None:
        if self._now >= self._most:
            return _too_many(f"{self._now} uploads are in progress, which is the limit", 1.0)
        self._now += 1
        return None

    def end(self) -> None:
        self._now -= 1


def _too_many(reason: str, wait: float) -> ErrorAnswer:
    seconds = max(1, round(wait + 0.5))
    return ErrorAnswer(
        status=429, messages=[f"{reason}; ask again"], headers={"Retry-After": str(seconds)}
    )
