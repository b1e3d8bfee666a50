"""The log of a file sink as Spark keeps it, and batches that wrote nothing in it.

Spark reads it without gaps: every tenth batch, by default, it puts all of them into one file, and
fails for good when one is missing.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from stoker.core.failpoints import failpoint

LOG = "_spark_metadata"
_EMPTY = b"v1"
"""A batch that wrote no file."""
_COMPACT = ".compact"
_INTERVAL = 10
"""Spark goes on with any interval of which one more than the number of a compacted batch is a
multiple; this is its default."""


def last_number(folder: Path) -> int:
    return last_of(path.name for path in folder.glob("[0-9]*"))


def last_of(names: Iterable[str]) -> int:
    """The highest number of a batch among the files of a log; -1 when there is none."""
    numbers = [name.removesuffix(_COMPACT) for name in names]
    return max((int(number) for number in numbers if number.isdecimal()), default=-1)


def begin_log(target: Path, committed: int) -> None:
    """As if all batches up to this one had written nothing here; whole or not at all."""
    target.mkdir(parents=True, exist_ok=True)
    compacted = (committed + 1) // _INTERVAL * _INTERVAL - 1
    unfinished = Path(tempfile.mkdtemp(prefix=".stoker-log-", dir=target))
    try:
        if compacted >= 0:
            (unfinished / f"{compacted}{_COMPACT}").write_bytes(_EMPTY)
        for number in range(compacted + 1, committed + 1):
            (unfinished / str(number)).write_bytes(_EMPTY)
        unfinished.chmod(0o755)
        os.replace(unfinished, target / LOG)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def fill_log(log: Path, committed: int) -> None:
    """As if the batches after its last one, up to this one, had written nothing.

    State that is divided anew takes a batch of the query which no sink ever sees.
    """
    interval = _interval_of(log)
    for number in range(last_number(log) + 1, committed + 1):
        if (number + 1) % interval == 0:
            _put(log / f"{number}{_COMPACT}", b"\n".join([_EMPTY, *_entries(log)]))
        else:
            _put(log / str(number), _EMPTY)


def _interval_of(log: Path) -> int:
    """As Spark finds it: by the last files that hold several batches, else its default."""
    names = [path.name.removesuffix(_COMPACT) for path in log.glob(f"[0-9]*{_COMPACT}")]
    ends = sorted(int(name) for name in names if name.isdecimal())
    if len(ends) > 1:
        return ends[-1] - ends[-2]
    if not ends:
        return _INTERVAL
    batches = ends[0] + 1
    divisors = (each for each in range(_INTERVAL, batches) if batches % each == 0)
    return next(divisors, batches) if batches // 2 > _INTERVAL else batches


def _entries(log: Path) -> list[bytes]:
    """Of all batches: the last file that holds several, and those after it."""
    compacted = last_of(path.name for path in log.glob(f"[0-9]*{_COMPACT}"))
    paths = [log / f"{compacted}{_COMPACT}"] if compacted >= 0 else []
    paths += [log / str(number) for number in range(compacted + 1, last_number(log) + 1)]
    return [line for path in paths for line in path.read_bytes().splitlines()[1:]]


def _put(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.stoker")
    unfinished.write_bytes(content)
    failpoint("sink-log.before-a-batch")
    unfinished.replace(path)
