"""How a process reports that it is ready, and where it listens, to the process that started it."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.core.ids import ResourceId
from stoker.osproc.atomic_file import write_atomically

MASTER_FILE = "master.json"
EXECUTOR_FILE = "task-executor.json"
"""Names of the address files, in the working directories of the processes."""


@dataclass(frozen=True, kw_only=True)
class Announcement:
    id: ResourceId
    address: str
    """Address of a master's REST server, or of a task executor's endpoint."""


Announce = Callable[[Announcement], None]


def ignore_announcement(_announcement: Announcement) -> None:
    """Announce nothing; the log has the same facts."""


@contextmanager
def address_file(path: Path, record: Mapping[str, str]) -> Iterator[None]:
    """Keep a file with the addresses of this process while it runs.

    The ports may be drawn at the start, so only this file tells them to others.
    """
    write_atomically(path, json.dumps({"pid": os.getpid(), **record}).encode())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
