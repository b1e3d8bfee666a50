"""How a process reports that it is ready, and where it listens, to whoever started it."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.core.ids import ResourceId
from stoker.osproc.atomic_file import write_atomically


@dataclass(frozen=True, kw_only=True)
class Announcement:
    id: ResourceId
    address: str
    """Address of a master's REST server, or of a task executor's endpoint."""


Announce = Callable[[Announcement], None]


def announce_to_nobody(_announcement: Announcement) -> None:
    """Announce nothing: the log reports it as well."""


@contextmanager
def address_left_at(path: Path, record: Mapping[str, str]) -> Iterator[None]:
    """Leave a file with the process's addresses while the process runs.

    Ports that were drawn as any free one are known only after the start.
    """
    write_atomically(path, json.dumps({"pid": os.getpid(), **record}).encode())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
