"""Remove contents of programs that no entry points to.

An upload writes the content before the entry, and a deletion removes it after the entry; when the
master dies in between, the content stays. Only old contents are removed, since an upload that is
still running has not written its entry yet.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from stoker.core.errors import CorruptContent, StokerError
from stoker.core.failpoints import failpoint
from stoker.rest.programs.store import CONTENTS, ProgramStore

log = logging.getLogger(__name__)


async def sweep_repeatedly(
    programs: ProgramStore, leads: Callable[[], bool], *, interval: timedelta, max_age: timedelta
) -> None:
    """Sweep in an interval while this master leads. Two sweeps at the same time are harmless."""
    while True:
        await asyncio.sleep(interval.total_seconds())
        if not leads():
            continue
        try:
            removed = await sweep(programs, max_age)
        except StokerError as error:
            log.warning("uploaded programs could not be swept this time: %s", error)
            continue
        if removed:
            log.info("removed %d contents of programs without an entry", removed)


async def sweep(programs: ProgramStore, max_age: timedelta) -> int:
    """Remove old contents without an entry and return how many.

    CorruptContent when an entry cannot be read: it might point to any of them.
    """
    # List contents before entries, so that an entry written in between is seen.
    contents = await programs.storage.modified(CONTENTS)
    oldest = programs.clock() / 1000 - max_age.total_seconds()
    old = {path: at for path, at in contents.items() if at < oldest}
    if not old:
        return 0
    entries = await programs.entries()
    damaged = [path for path, program in entries.items() if program is None]
    if damaged:
        raise CorruptContent(f"{damaged[0]} cannot be read; delete the file if nobody needs it")
    wanted = {f"{CONTENTS}/{program.sha256}" for program in entries.values() if program}
    removed = 0
    for path in sorted(old.keys() - wanted):
        # The same content may have been uploaded again; that upload checks after writing its entry.
        if (await programs.storage.modified(CONTENTS)).get(path) == old[path]:
            failpoint("programs.before-sweeping")
            await programs.storage.delete(path)
            removed += 1
    return removed
