"""A file that tells where a process listens, for whoever started it.

Ports that were free are known only after the start; the file is there while the process is.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from stoker.osproc.atomic_file import write_atomically


@contextmanager
def address_left_at(path: Path, record: Mapping[str, str]) -> Iterator[None]:
    write_atomically(path, json.dumps({"pid": os.getpid(), **record}).encode())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
