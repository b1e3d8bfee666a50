"""Options of artifacts."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.errors import InvalidOption
from stoker.core.options import ByteSize, option

MEGABYTE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BlobOptions:
    upload_size_limit: ByteSize = option(
        "blob.upload.size-limit",
        "The largest artifact that a master accepts.",
        ByteSize(512 * MEGABYTE),
    )
    storage_size_limit: ByteSize = option(
        "blob.storage.size-limit",
        "Size of the artifacts of all jobs together; those of ended jobs are removed and do not "
        "count. 0: no limit.",
        ByteSize(0),
    )
    storage_reserve: ByteSize = option(
        "blob.storage.min-free",
        "Free space that new jobs, their artifacts and uploaded programs leave on the disk of the "
        "storage, if that is a local one, and the logs of attempts as well: the records of running "
        "jobs need it. 0: none.",
        ByteSize(256 * MEGABYTE),
    )
    cache_size_limit: ByteSize = option(
        "blob.cache.size-limit",
        "Artifacts that a task executor keeps on its disk. Beyond this, it removes artifacts of "
        "jobs that do not run there, the least recently used first. Artifacts in use stay.",
        ByteSize(2048 * MEGABYTE),
    )
    cleanup_interval: timedelta = option(
        "blob.service.cleanup.interval",
        "How long a task executor keeps the artifacts of a job after the job's last use of them.",
        timedelta(hours=1),
    )
    fetch_retries: int = option(
        "blob.fetch.retries",
        "How often a task executor tries again to fetch an artifact.",
        5,
    )

    def __post_init__(self) -> None:
        if self.fetch_retries < 0:
            raise InvalidOption(
                f"blob.fetch.retries is {self.fetch_retries}; set it to 0 or more",
                key="blob.fetch.retries",
            )
