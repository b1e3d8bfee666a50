"""Limits of access: tokens with roles, requests per second, concurrent uploads."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stoker.aio.clock import WallClock
from stoker.api.shape import RETRY_AFTER
from stoker.core.errors import InvalidOption
from stoker.gateways.dispatcher import CallerRights
from stoker.rest.http.errors import ErrorAnswer, unavailable
from stoker.security.page_sessions import PageSession, begin_session
from stoker.security.submission_limits import NO_LIMITS, SubmissionLimits
from stoker.security.tokens import Permission, Role, Token, TokenFile, allows, find, find_by_id

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Requester:
    """Who sent a request, as far as a token or a certificate proves it."""

    role: Role = Role.OPERATE
    token: str | None = None
    """Id of the token; None where callers need none."""
    certificate: str | None = None
    """Common name of the certificate that identifies the caller; None if a token does."""
    name: str = ""
    """Name of the token or certificate; where callers need none, the user who runs the master."""
    limits: SubmissionLimits = NO_LIMITS
    session: PageSession | None = None
    """Set for a caller who uses the web page and shows a cookie instead of a token."""

    @property
    def only_own(self) -> str | None:
        """The owner whose jobs alone the caller sees and changes; None for a caller of all jobs."""
        return self.name if self.role is Role.SUBMIT else None

    @property
    def rights(self) -> CallerRights:
        return CallerRights(
            name=self.name,
            credential=self.credential,
            limits=self.limits,
            only_own=self.only_own is not None,
        )

    @property
    def is_identified(self) -> bool:
        """Whether the caller has shown who it is."""
        return self.token is not None or self.certificate is not None

    @property
    def credential(self) -> str:
        return "token" if self.certificate is None else "certificate"

    def refusal(self, needed: Permission) -> ErrorAnswer | None:
        """The answer to a request for which the caller lacks the permission, or None."""
        if allows(self.role, needed):
            return None
        roles = " or ".join(role for role in Role if allows(role, needed))
        reason = (
            f"the {self.credential} {self.name} has the role {self.role}; this request needs "
            f"{roles}"
        )
        return ErrorAnswer(status=403, messages=[reason])


ANYONE = Requester()
"""The caller of what needs no token."""


class Access:
    """Bearer tokens; a master without a token file admits every caller that reaches it."""

    def __init__(
        self,
        tokens: TokenFile | None,
        clock: WallClock,
        local_user: str = "",
        limits: Mapping[Role, SubmissionLimits] | None = None,
        certificates: Mapping[str, Role] | None = None,
    ) -> None:
        """`limits`: defaults of a role. `certificates`: roles of their holders, by common name."""
        self._certificates = certificates or {}
        self._tokens = tokens
        self._limits = limits or {}
        self._clock = clock
        self._anyone = Requester(name=local_user)

    @property
    def asks_for_tokens(self) -> bool:
        return self._tokens is not None

    def identify(
        self,
        authorization: str | None,
        session: PageSession | None = None,
        certificate: str | None = None,
    ) -> Requester | ErrorAnswer:
        """The caller, or the answer to one who has no valid token, session or certificate.

        A token or session that is shown decides, also beside a certificate. `certificate`: its
        common name.
        """
        is_token_shown = authorization is not None or session is not None
        knows_certificate = certificate is not None and certificate in self._certificates
        if knows_certificate and (self._tokens is None or not is_token_shown):
            assert certificate is not None
            return self._holder_of(certificate)
        if self._tokens is None:
            return self._anyone if not self._certificates else _unknown_certificate(certificate)
        if authorization is None and session is not None:
            token = self._check(lambda known: find_by_id(known, session.token_id))
            return token if isinstance(token, ErrorAnswer) else self._requester(token, session)
        if authorization is None:
            return _unauthorized(
                "this cluster requires a token: the header Authorization: Bearer TOKEN, or for the "
                "command line the option client.token ($STOKER_CLIENT_TOKEN)"
            )
        scheme, _, text = authorization.partition(" ")
        token = self._find(text.strip() if scheme.lower() == "bearer" else "")
        return token if isinstance(token, ErrorAnswer) else self._requester(token)

    def log_in(self, text: str) -> Requester | ErrorAnswer:
        """The holder of the token with this text, with a new session of the web page."""
        token = self._find(text)
        if isinstance(token, ErrorAnswer):
            return token
        return self._requester(token, begin_session(token, self._clock()))

    def renew(self, session: PageSession) -> PageSession | None:
        """The same session with a later end; None if its token is no longer valid."""
        token = self._check(lambda known: find_by_id(known, session.token_id))
        return None if isinstance(token, ErrorAnswer) else begin_session(token, self._clock())

    def _find(self, text: str) -> Token | ErrorAnswer:
        return self._check(lambda known: find(known, text))

    def _check(self, choose: Callable[[tuple[Token, ...]], Token | None]) -> Token | ErrorAnswer:
        try:
            token = None if self._tokens is None else choose(self._tokens.tokens)
        except InvalidOption as error:
            # Nobody is admitted, and the operator learns why from the log and from the answer.
            log.error("%s", error.message)
            return unavailable(error.message)
        if token is None:
            return _unauthorized("the token does not belong to this cluster, or was revoked")
        if token.is_expired(self._clock()):
            return _unauthorized(f"the token {token.name} has expired; create another one")
        return token

    def _holder_of(self, certificate: str) -> Requester:
        role = self._certificates[certificate]
        limits = self._limits.get(role, NO_LIMITS)
        return Requester(role=role, certificate=certificate, name=certificate, limits=limits)

    def _requester(self, token: Token, session: PageSession | None = None) -> Requester:
        limits = token.limits.or_else(self._limits.get(token.role, NO_LIMITS))
        return Requester(
            role=token.role, token=token.id, name=token.name, limits=limits, session=session
        )


def _unknown_certificate(name: str | None) -> ErrorAnswer:
    reason = f"the certificate of {name!r} is not among those of security.ssl.rest.identities"
    return ErrorAnswer(status=403, messages=[reason])


def _unauthorized(reason: str) -> ErrorAnswer:
    return ErrorAnswer(status=401, messages=[reason], headers={"WWW-Authenticate": "Bearer"})


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """Token bucket of a caller: requests that it may still send, refilled over time."""

    left: float
    at: float


def take_request(bucket: Bucket | None, now: float, per_second: float) -> tuple[Bucket, float]:
    """The bucket after one more request, and the seconds to wait if it was empty, else 0."""
    left = per_second if bucket is None else bucket.left + (now - bucket.at) * per_second
    left = min(left, per_second)
    if left < 1.0:
        return Bucket(left=left, at=now), (1.0 - left) / per_second
    return Bucket(left=left - 1.0, at=now), 0.0


class RateLimit:
    """Allows each caller `per_second` requests a second, in bursts of as many."""

    def __init__(self, per_second: int, max_callers: int = 10_000) -> None:
        self._per_second = per_second
        self._max_callers = max_callers
        self._buckets: dict[str, Bucket] = {}

    def refusal(self, caller: str, now: float) -> ErrorAnswer | None:
        if self._per_second <= 0:
            return None
        bucket, wait = take_request(self._buckets.pop(caller, None), now, self._per_second)
        # The most recent caller stands last; those that called longest ago are forgotten first.
        self._buckets[caller] = bucket
        while len(self._buckets) > self._max_callers:
            del self._buckets[next(iter(self._buckets))]
        if wait == 0.0:
            return None
        return _too_many(f"more than {self._per_second} requests a second from {caller}", wait)


class ConcurrencyLimit:
    """Limits how many requests of one kind are served at once, in all and to each caller."""

    def __init__(self, limit: int, kind: str, *, per_caller: int | None = None) -> None:
        self._limit = limit
        self._kind = kind
        self._per_caller = per_caller
        self._by_caller: Counter[str] = Counter()
        """Only callers that are being served."""

    def begin(self, caller: str) -> ErrorAnswer | None:
        """The refusal; without one, the request counts until `end`."""
        own, current = self._by_caller[caller], self._by_caller.total()
        if self._per_caller is not None and own >= self._per_caller:
            return _too_many(
                f"{own} {self._kind} to {caller} are in progress, which is the limit for each "
                "caller; end one of them",
                1.0,
            )
        if current >= self._limit:
            return _too_many(
                f"{current} {self._kind} are in progress, which is the limit for all callers", 1.0
            )
        self._by_caller[caller] += 1
        return None

    def end(self, caller: str) -> None:
        self._by_caller[caller] -= 1
        if not self._by_caller[caller]:
            del self._by_caller[caller]


def _too_many(reason: str, wait: float) -> ErrorAnswer:
    seconds = max(1, round(wait + 0.5))
    return ErrorAnswer(
        status=429, messages=[f"{reason}; try again"], headers={RETRY_AFTER: str(seconds)}
    )
