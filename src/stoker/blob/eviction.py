"""Which files a full cache evicts. Pure."""

from collections import OrderedDict
from collections.abc import Collection

from stoker.core.ids import BlobKey, JobId

Entry = tuple[JobId, BlobKey]


class SizeTracker:
    """Sizes of the files in a cache, in order of their last use."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._sizes: OrderedDict[Entry, int] = OrderedDict()

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._sizes

    def add(self, entry: Entry, size: int) -> None:
        self.remove(entry)
        self._sizes[entry] = size
        self.total += size

    def touch(self, entry: Entry) -> None:
        self._sizes.move_to_end(entry)

    def remove(self, entry: Entry) -> None:
        self.total -= self._sizes.pop(entry, 0)

    def of_job(self, job_id: JobId) -> tuple[Entry, ...]:
        return tuple(entry for entry in self._sizes if entry[0] == job_id)

    def victims(self, needed: int, in_use: Collection[JobId]) -> tuple[Entry, ...]:
        """Files to evict so that `needed` bytes fit: least recently used first, none in use.

        When that is not enough, all unused files go, and the cache exceeds its limit.
        """
        excess = self.total + needed - self.limit
        chosen: list[Entry] = []
        for entry, size in self._sizes.items():
            if excess <= 0:
                break
            if entry[0] not in in_use:
                chosen.append(entry)
                excess -= size
        return tuple(chosen)
