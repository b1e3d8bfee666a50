"""Removes contents of programs that no entry points to: an upload or a deletion was cut off."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from stoker.core.errors import CorruptContent, StokerError
from stoker.core.failpoints import failpoint
from stoker.rest.programs.store import CONTENTS, ProgramStore

log = logging.getLogger(__name__)


async def keep_swept(
    programs: ProgramStore, leads: Callable[[], bool], *, interval: timedelta, max_age: timedelta
) -> None:
    """Of all masters the leading one does it; should two, for a moment, that is harmless."""
    while True:
        await asyncio.sleep(interval.total_seconds())
        if not leads():
            continue
        try:
            removed = await sweep(programs, max_age)
        except StokerError as error:
            log.warning("uploaded programs are not swept this time: %s", error)
            continue
        if removed:
            log.info("%d contents of programs that belonged to nobody were removed", removed)


async def sweep(programs: ProgramStore, max_age: timedelta) -> int:
    """How many were removed. None when an entry cannot be read: it may be what points there."""
    # Contents before entries: what is entered in between is then seen to be pointed to.
    contents = await programs.storage.modified(CONTENTS)
    oldest = programs.clock() / 1000 - max_age.total_seconds()
    old = {path: at for path, at in contents.items() if at < oldest}
    if not old:
        return 0
    entries = await programs.entries()
    damaged = [path for path, program in entries.items() if program is None]
    if damaged:
        raise CorruptContent(f"{damaged[0]} cannot be read; remove it if nobody needs it")
    wanted = {f"{CONTENTS}/{program.sha256}" for program in entries.values() if program}
    removed = 0
    for path in sorted(old.keys() - wanted):
        # The same content may have come again since; an upload looks after its entry is written.
        if (await programs.storage.modified(CONTENTS)).get(path) == old[path]:
            failpoint("programs.before-sweeping")
            await programs.storage.delete(path)
            removed += 1
    return removed
