"""Ports as users write them: `6123`, `8081-8090`, `8081-8090,8100`, or `0` for any free one."""

from stoker.core.errors import InvalidOption

_MAX_PORT = 65535


def parse_ports(text: str, option: str) -> tuple[range, ...]:
    """The ports to try, in order. Raises InvalidOption with the name of the option."""
    try:
        ranges = tuple(_parse_range(part.strip()) for part in text.split(","))
    except ValueError:
        ranges = ()
    if not ranges or any(not ports or ports[-1] > _MAX_PORT for ports in ranges):
        raise InvalidOption(
            f"{option}: {text!r} is not a port; write one (8081), a range (8081-8090), several "
            "with commas (8081,8083), or 0 for any free one"
        )
    return ranges


def _parse_range(part: str) -> range:
    first, dash, last = part.partition("-")
    start = int(first)
    return range(start, (int(last) if dash else start) + 1)
