"""One at a time for each job: what must not happen to it while something else does."""

import asyncio
from weakref import WeakValueDictionary

from stoker.core.ids import JobId


class JobLocks:
    """Locks that exist for as long as somebody holds or awaits them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[JobId, asyncio.Lock] = WeakValueDictionary()

    def __call__(self, job_id: JobId) -> asyncio.Lock:
        return self._locks.setdefault(job_id, asyncio.Lock())
