"""Which coordinator a URL means."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from stoker.core.errors import InvalidOption
from stoker.core.ids import Ids
from stoker.ha.coordinator import Coordinator

KNOWN_SCHEMES = ("embedded",)


async def open_coordinator(url: str, *, ids: Ids) -> Coordinator:
    """A new session. `embedded:///directory` serves the processes of one machine."""
    parts = urlsplit(url)
    match parts.scheme:
        case "embedded":
            return await _open_embedded(url, parts.netloc, Path(unquote(parts.path)), ids)
        case _:
            known = ", ".join(f"{scheme}://" for scheme in KNOWN_SCHEMES)
            raise InvalidOption(f"no coordinator for {url!r}; known are: {known}", url=url)


async def _open_embedded(url: str, host: str, directory: Path, ids: Ids) -> Coordinator:
    from stoker.ha.embedded.coordinator import EmbeddedCoordinator  # noqa: PLC0415

    if host or directory == Path("/") or not directory.is_absolute():
        raise InvalidOption(
            f"{url!r} names no directory; write embedded:///absolute/directory", url=url
        )
    return await EmbeddedCoordinator.open(directory, session=ids.nonce())
