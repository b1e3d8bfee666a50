"""Stored records that tell the next master of a job about savepoints and a stop."""

import msgspec

from stoker.core.errors import NotFound
from stoker.core.failpoints import failpoint
from stoker.core.ids import JobId
from stoker.core.values import Millis, Value, decode_value
from stoker.storage.contract import Storage


class StopRecord(Value):
    """The savepoint of a stop is complete: every leader from now on drives the job to its end."""

    path: str
    at: Millis
    version: int = 1


class SavepointsRecord(Value):
    begun: int = 0
    """Savepoints that all masters of the job have started so far."""
    stop_order: str | None = None
    """Order id of the last savepoint if it was to stop the job, else None.

    Streams may still be suspended under it.
    """
    version: int = 1


def stop_record_path(job_id: JobId) -> str:
    return f"jobs/{job_id}/stopped.json"


def savepoints_record_path(job_id: JobId) -> str:
    return f"jobs/{job_id}/savepoints.json"


async def read_stop(storage: Storage, job_id: JobId) -> StopRecord | None:
    path = stop_record_path(job_id)
    try:
        content = await storage.read(path)
    except NotFound:
        return None
    return decode_value(content, StopRecord, path)


async def record_stop(storage: Storage, job_id: JobId, record: StopRecord) -> None:
    failpoint("stop.before-record")
    await storage.write(stop_record_path(job_id), msgspec.json.encode(record))
    failpoint("stop.after-record")


async def read_savepoints(storage: Storage, job_id: JobId) -> SavepointsRecord:
    path = savepoints_record_path(job_id)
    try:
        content = await storage.read(path)
    except NotFound:
        return SavepointsRecord()
    return decode_value(content, SavepointsRecord, path)


async def record_savepoints(storage: Storage, job_id: JobId, record: SavepointsRecord) -> None:
    """Called before any stream is suspended, so that the next master can resume the streams."""
    failpoint("savepoints.before-record")
    await storage.write(savepoints_record_path(job_id), msgspec.json.encode(record))
    failpoint("savepoints.after-record")
