"""Which files of the storage belong to nobody. Pure.

A submission or a leader that died between its two writes leaves content that no record points
to. Content is always written just before its record, so what is old and has none gets none.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from stoker.core.ids import JobId, is_hex_id

FOLDERS: Final = ("jobs", "results", "blobs", "logs")
"""Each has one folder for each job; everything else in the storage is left alone."""

Pointer = str | None
"""Path of the one content that a record means; None when all there is of the job is kept."""


@dataclass(frozen=True, kw_only=True)
class KnownJobs:
    """What the coordinator's records say, read completely."""

    jobs: Mapping[JobId, Pointer]
    """Accepted and not cleaned up, with their graphs."""
    results: Mapping[JobId, Pointer]
    """Ended, with their details."""
    in_use: Set[JobId] = frozenset()
    """Live, or ended and still being cleaned up."""


def orphans(
    files: Mapping[str, float], known: KnownJobs, *, now: float, max_age: timedelta
) -> list[str]:
    """Paths that nobody points to, older than the age. Times are seconds since 1970.

    Checkpoints of a job that is known to have ended need not grow old: nobody will ask for them.

    Records that know no job at all prove nothing: rather than a cluster without jobs, this may be
    one that was pointed to another coordinator by mistake.
    """
    if not known.jobs and not known.results:
        return []
    oldest = now - max_age.total_seconds()
    return sorted(
        path
        for path, at in files.items()
        if (at < oldest or is_late(path, known)) and not is_wanted(path, known)
    )


def is_late(path: str, known: KnownJobs) -> bool:
    """Whether Spark wrote it when its job was over: it keeps state in order up to a minute more."""
    folder, job_id, inside = _parts(path)
    return folder == "jobs" and inside.startswith("checkpoints/") and job_id in known.results


def is_wanted(path: str, known: KnownJobs) -> bool:
    folder, job_id, inside = _parts(path)
    if not inside or not is_hex_id(job_id):
        return True
    match folder:
        case "results":
            return _points(known.results, job_id, path)
        case "jobs" if inside.startswith("graph/") and job_id in known.jobs:
            return _points(known.jobs, job_id, path)
        case "logs":
            return job_id in known.jobs or job_id in known.results or job_id in known.in_use
        case "jobs" | "blobs":
            return job_id in known.jobs or job_id in known.in_use
        case _:
            return True


def job_of(path: str) -> JobId:
    return _parts(path)[1]


def _parts(path: str) -> tuple[str, JobId, str]:
    folder, _, rest = path.partition("/")
    job_id, _, inside = rest.partition("/")
    return folder, JobId(job_id), inside


def _points(records: Mapping[JobId, Pointer], job_id: JobId, path: str) -> bool:
    return job_id in records and records[job_id] in (None, path)
