"""That a process is ready, for whoever started it."""

from collections.abc import Callable
from dataclasses import dataclass

from stoker.core.ids import ResourceId


@dataclass(frozen=True, kw_only=True)
class Announcement:
    id: ResourceId
    address: str
    """Where it answers: a master's REST server, a task executor's endpoint."""


Announce = Callable[[Announcement], None]


def announce_to_nobody(_announcement: Announcement) -> None:
    """The log says it as well."""
