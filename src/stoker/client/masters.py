"""Which master is asked, and what happens when it does not answer."""

from urllib.parse import SplitResult, urlsplit

from stoker.client.options import ClientOptions
from stoker.core.errors import InvalidOption, Unavailable


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
    def current(self) -> str:
        return self._urls[self._current]

    def move_on(self) -> None:
        self._current = (self._current + 1) % len(self._urls)

    def __len__(self) -> int:
        return len(self._urls)

    def __str__(self) -> str:
        return ",".join(self._urls)


class Attempts:
    """One call's way through the masters, without any waiting of its own."""

    def __init__(self, masters: Masters, options: ClientOptions) -> None:
        self._masters = masters
        self._options = options
        self._failures = 0

    @property
    def url(self) -> str:
        return self._masters.current

    def unreachable(self, reason: str) -> float:
        """Nobody answered there: seconds to wait before the next attempt, or Unavailable."""
        return self._next(
            f"cannot reach a Stoker master at {self._masters}: {reason}; "
            "is it running? (stoker cluster up)"
        )

    def unavailable(self, message: str) -> float:
        """It answered that nobody leads: seconds to wait, or Unavailable."""
        return self._next(message)

    def _next(self, message: str) -> float:
        self._failures += 1
        self._masters.move_on()
        # A round asks every master once; only whole rounds are counted and separated by a pause.
        rounds, within_round = divmod(self._failures, len(self._masters))
        if within_round:
            return 0.0
        if rounds > self._options.retries:
            raise Unavailable(message, masters=str(self._masters))
        return self._options.retry_delay.total_seconds()
