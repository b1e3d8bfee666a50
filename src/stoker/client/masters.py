"""Which master a client asks, how long it waits for an answer, and whom it asks next.

Standbys forward calls to the leader, so any master can answer. One that is down refuses at once.
One that is frozen or cut off stays silent, and waiting the whole timeout for it would stop the
client for a minute while other masters could answer. So a silent master is left after a few
seconds. But all may be silent because the one leader behind them is slow, and an impatient client
would then repeat its call without end. So its patience doubles with each round of silence, up to
the timeout.

Until a master has answered for the first time, its address may be wrong: then a client gives up
after a second. A master that was there once comes back, or another one leads.

This module only decides. It neither sends nor waits.
"""

import logging
import re
from urllib.parse import SplitResult, urlsplit

from stoker.client.answers import answer_too_late
from stoker.client.calls import WAIT_SECONDS
from stoker.client.options import ClientOptions
from stoker.core.errors import InvalidOption, Unavailable
from stoker.osproc.unix_socket import SCHEME

WAIT_SECONDS_OF_MANY = 5.0
"""How long one of several masters may delay the answer to a status request.

If this master freezes, the client notices only after this time."""


def parse_masters(text: str) -> tuple[str, ...]:
    """Base URLs from `http://a:8081,http://b:8081`; the scheme may be left out.

    `unix:///run/stoker/rest.socket` names a master of this machine by its `rest.socket`.
    """
    urls = tuple(_parse_url(part.strip()) for part in text.split(",") if part.strip())
    if not urls:
        raise InvalidOption("no master is named: give one or more URLs like http://127.0.0.1:8081")
    return urls


def _parse_url(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        usable = _is_usable(parts)
    except ValueError:
        usable = False
    if not usable:
        raise InvalidOption(
            f"a master is named by a URL like http://127.0.0.1:8081, found {text!r}"
        )
    return url.rstrip("/")


def _is_usable(parts: SplitResult) -> bool:
    if parts.scheme == SCHEME:
        return not parts.netloc and len(parts.path) > 1
    # Reading the port raises ValueError if it is not a number or too large.
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0


log = logging.getLogger(__name__)

_ADVICE = re.compile(r"(;|, then) try again( later| shortly)?$")


def log_retry(reason: str) -> None:
    """A call may be repeated for a minute: not silently."""
    log.warning("trying again: %s", reason)


FIRST_CONTACT_PAUSE = 0.5
"""Seconds between attempts to connect, at most, until a master has answered once."""


class Masters:
    """The known masters; the one that answered last is asked first."""

    def __init__(self, urls: tuple[str, ...], named_by: str = "") -> None:
        """`named_by`: the place that names them, for errors; empty if the user has typed them."""
        self._urls = urls
        self._named_by = named_by
        self._current = 0
        self.has_answered = False
        """Whether any of the masters has ever answered a call of this client."""

    @property
    def urls(self) -> tuple[str, ...]:
        return self._urls

    @property
    def current(self) -> str:
        return self._urls[self._current]

    def move_on(self) -> None:
        self._current = (self._current + 1) % len(self._urls)

    @property
    def hold_seconds(self) -> float:
        """How long a master may delay an answer; less if another master could answer."""
        return WAIT_SECONDS if len(self._urls) == 1 else WAIT_SECONDS_OF_MANY

    def __len__(self) -> int:
        return len(self._urls)

    @property
    def description(self) -> str:
        """Their URLs, and who names them."""
        return f"{self} (named by {self._named_by})" if self._named_by else str(self)

    def __str__(self) -> str:
        return ",".join(self._urls)


class Attempts:
    """The attempts of one call, at one master after the other.

    Every call may be repeated at another master (see calls.py).
    """

    def __init__(self, masters: Masters, options: ClientOptions) -> None:
        self._masters = masters
        self._options = options
        self._asked = 0
        self._refusal: str | None = None
        self.reason = ""
        """Why the last round of attempts failed, without the advice to try again."""
        self._rounds_refused = 0
        self._rounds_silent = 0

    @property
    def url(self) -> str:
        return self._masters.current

    @property
    def patience(self) -> float:
        """Seconds for which the current master may be silent."""
        whole = self._options.timeout.total_seconds()
        if len(self._masters) == 1:
            return whole
        first = self._options.silence.total_seconds()
        return float(min(whole, first * 2**self._rounds_silent))

    def record_silence(self, waited: float) -> float:
        """The master did not answer. Returns seconds to wait, or raises CallTimedOut.

        Raises Unavailable instead if another master of the same round refused the call.
        """
        return self._next(None, waited)

    def record_unreachable(self, reason: str) -> float:
        """The connection failed or broke. Returns seconds to wait, or raises Unavailable."""
        return self._next(
            f"cannot reach a Stoker master at {self._masters.description}: {reason}; "
            "is it running? (stoker cluster up)"
        )

    def record_answer(self) -> None:
        """A master answered, whatever it said."""
        self._masters.has_answered = True

    def record_unavailable(self, message: str) -> float:
        """The master answered 503 or 429. Returns seconds to wait, or raises Unavailable."""
        return self._next(message)

    def _next(self, refusal: str | None, waited: float = 0.0) -> float:
        self._asked += 1
        self._refusal = refusal or self._refusal
        self._masters.move_on()
        # A round asks every master once; only whole rounds are counted and separated by a pause.
        if self._asked % len(self._masters):
            return 0.0
        if self._refusal is None:
            return self._after_silence(waited)
        message, self._refusal = self._refusal, None
        self.reason = _ADVICE.sub("", message)
        self._rounds_refused += 1
        retries, pause = self._patience_with_refusals()
        if self._rounds_refused > retries:
            raise Unavailable(message, masters=str(self._masters))
        return pause

    def _patience_with_refusals(self) -> tuple[int, float]:
        """How often to repeat the call, and the seconds before each repetition.

        A wrong address never answers, while a known master comes back, or another one leads.
        """
        retries, pause = self._options.retries, self._options.retry_delay.total_seconds()
        if self._masters.has_answered:
            return retries, pause
        pause = min(pause, FIRST_CONTACT_PAUSE)
        if pause > 0:
            retries = min(retries, round(self._options.first_contact.total_seconds() / pause))
        return retries, pause

    def _after_silence(self, waited: float) -> float:
        if self.patience >= self._options.timeout.total_seconds():
            raise answer_too_late(str(self._masters), waited)
        self._rounds_silent += 1
        return 0.0
