"""Which master is asked, and what happens when it does not answer."""

from urllib.parse import SplitResult, urlsplit

from stoker.client.answers import answer_too_late
from stoker.client.calls import WAIT_SECONDS
from stoker.client.options import ClientOptions
from stoker.core.errors import InvalidOption, Unavailable

WAIT_SECONDS_OF_MANY = 5.0
"""A master that freezes while it holds a question is noticed only after this time."""


def parse_masters(text: str) -> tuple[str, ...]:
    """Base URLs from `http://a:8081,http://b:8081`; the scheme may be left out."""
    urls = tuple(_parse_url(part.strip()) for part in text.split(",") if part.strip())
    if not urls:
        raise InvalidOption("no master is named: give one or more URLs like http://localhost:8081")
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
            f"a master is named by a URL like http://localhost:8081, found {text!r}"
        )
    return url.rstrip("/")


def _is_usable(parts: SplitResult) -> bool:
    # Asking for the port raises ValueError for one that is no number or too large.
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0


class Masters:
    """The known masters; the one that answered last is asked first."""

    def __init__(self, urls: tuple[str, ...]) -> None:
        self._urls = urls
        self._current = 0

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
        """How long a master is asked to hold a question: briefly if another one could answer."""
        return WAIT_SECONDS if len(self._urls) == 1 else WAIT_SECONDS_OF_MANY

    def __len__(self) -> int:
        return len(self._urls)

    def __str__(self) -> str:
        return ",".join(self._urls)


class Attempts:
    """One call's way through the masters, without any waiting of its own.

    Every call may be repeated at another master: questions change nothing, a graph carries its
    job's id, and a wish that is there already is there.
    """

    def __init__(self, masters: Masters, options: ClientOptions) -> None:
        self._masters = masters
        self._options = options
        self._asked = 0
        self._refusal: str | None = None
        self._rounds_refused = 0
        self._rounds_silent = 0

    @property
    def url(self) -> str:
        return self._masters.current

    @property
    def patience(self) -> float:
        """Seconds that a master may be silent: few while there is another one to ask.

        More after each round of silence: all may be slow because of the one leader behind them.
        """
        whole = self._options.timeout.total_seconds()
        if len(self._masters) == 1:
            return whole
        first = self._options.silence.total_seconds()
        return float(min(whole, first * 2**self._rounds_silent))

    def silent(self, waited: float) -> float:
        """It took the call and does not answer: seconds to wait, or CallTimedOut."""
        return self._next(None, waited)

    def unreachable(self, reason: str) -> float:
        """Nobody answered there: seconds to wait before the next attempt, or Unavailable."""
        return self._next(
            f"cannot reach a Stoker master at {self._masters}: {reason}; "
            "is it running? (stoker cluster up)"
        )

    def unavailable(self, message: str) -> float:
        """It answered that nobody leads: seconds to wait, or Unavailable."""
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
        self._rounds_refused += 1
        if self._rounds_refused > self._options.retries:
            raise Unavailable(message, masters=str(self._masters))
        return self._options.retry_delay.total_seconds()

    def _after_silence(self, waited: float) -> float:
        if self.patience >= self._options.timeout.total_seconds():
            raise answer_too_late(str(self._masters), waited)
        self._rounds_silent += 1
        return 0.0
