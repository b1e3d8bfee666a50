"""Ports as users write them: `0`, `6123`, `50010-50020`, `50010-50020,50100`."""

from collections.abc import Iterator

from stoker.core.errors import InvalidOption


def read_ports(text: str) -> Iterator[int]:
    """Each port to try, in order; 0 is any free one."""
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low, high = int(first), int(last) if dash else int(first)
        except ValueError:
            raise _not_ports(text) from None
        if not 0 <= low <= high <= 65535:
            raise _not_ports(text)
        yield from range(low, high + 1)


def _not_ports(text: str) -> InvalidOption:
    return InvalidOption(
        f"{text!r} is not a port; write one (6123), a range (50010-50020), several with commas, "
        f"or 0 for any free one"
    )
