"""The state from which a job starts, and the checkpoint that is retained at its end."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import msgspec

from stoker import __version__
from stoker.aio.retry import Backoff, retry
from stoker.core.checkpoints import (
    CheckpointEntry,
    CheckpointKind,
    CheckpointStatus,
    RestoredFrom,
)
from stoker.core.errors import StokerError, StorageUnavailable
from stoker.core.graph import JobGraph
from stoker.core.ids import JobId, RegionId
from stoker.core.regions import regions_of
from stoker.core.results import JobDetails
from stoker.core.values import Millis
from stoker.gateways.job import JobEnd
from stoker.jobmaster.savepoints.operations import artifacts_of, installed_spark
from stoker.jobmaster.savepoints.records import read_stop
from stoker.savepoints.locations import SavepointServices
from stoker.savepoints.restore import (
    RestoreRecord,
    check_savepoint_of,
    read_restore_record,
    restore,
)
from stoker.savepoints.retained import refer_to_savepoint, remove_expired, retained_location
from stoker.savepoints.take import SavepointHeader, SavepointWriter, checkpoint_folder
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)

STORAGE_BACKOFF = Backoff(initial=timedelta(seconds=0.5), maximum=timedelta(seconds=5))
STORAGE_TRIES = 6


async def recorded_origin(graph: JobGraph, storage: Storage) -> RestoredFrom | None:
    """The origin that was restored under an earlier job master; None if there is none."""
    if graph.restore is None:
        return None
    record = await read_restore_record(storage, graph.job_id)
    return None if record is None else _origin_in(record)


def presumed_origin(graph: JobGraph, started_at: Millis) -> RestoredFrom | None:
    """The origin of a job that has had attempts: they prove that its restoration was complete.

    Its record is lost, but the job's own checkpoints are newer than what could be restored again.
    """
    if graph.restore is None:
        return None
    log.warning("the record of the start from %s is gone; the job continues", graph.restore.path)
    return RestoredFrom(path=graph.restore.path, at=started_at)


async def restore_origin(
    graph: JobGraph, storage: Storage, services: SavepointServices, now: Millis
) -> RestoredFrom | None:
    """Restore the origin of a job once; afterwards its own checkpoints take precedence."""
    if graph.restore is None:
        return None

    async def read_or_restore() -> RestoreRecord:
        known = await read_restore_record(storage, graph.job_id)
        if known is not None:
            return known
        location, manifest, compatibility = await check_savepoint_of(graph, services.open_storage)
        for finding in compatibility.findings:
            log.info("%s: %s", finding.verdict, finding)
        regions = [region.id for region in regions_of(graph) if region.streaming]
        return await restore(location, manifest, storage, graph.job_id, regions=regions, now=now)

    record = await retry(
        read_or_restore, on=(StorageUnavailable,), backoff=STORAGE_BACKOFF, attempts=STORAGE_TRIES
    )
    return _origin_in(record)


def _origin_in(record: RestoreRecord) -> RestoredFrom:
    return RestoredFrom(
        path=record.path,
        at=record.at,
        kind=CheckpointKind.SAVEPOINT if record.kind == "savepoint" else CheckpointKind.CHECKPOINT,
        batches=record.batches,
    )


async def retain_checkpoint(
    end: JobEnd, graph: JobGraph, storage: Storage, services: SavepointServices
) -> JobEnd:
    """Retain the last checkpoint of an ended job in the form of a savepoint.

    A job that was stopped with a savepoint keeps a reference to that. A job without any batch has
    nothing to keep. Checkpoints that have expired by now are removed.

    Its name derives from the job id, so that a leader that repeats this makes no second one. A
    failure is logged and does not prevent the end of the job.
    """
    regions = [region.id for region in regions_of(graph) if region.streaming]
    retention = services.options.retention_of(graph.configuration)
    details = end.details
    if not regions or not retention.keeps(details.status):
        return end
    location = retained_location(graph.job_id, storage, services)
    try:
        stop = await read_stop(storage, graph.job_id)
        if stop is not None:
            await refer_to_savepoint(location, stop.path)
            return end
        if not await _has_batch(graph.job_id, regions, storage):
            return end
        header = _header_of_retained(graph.job_id, details)
        writer = SavepointWriter(storage, graph, location, header, artifacts_of(graph))
        manifest = await writer.write(regions)
        await remove_expired(storage, services, header.at)
    except StokerError as error:
        log.error("the last checkpoint could not be retained: %s", error)
        return end
    log.info("the last checkpoint is retained at %s", location.url)
    kept = CheckpointEntry(
        id=0,
        kind=CheckpointKind.CHECKPOINT,
        status=CheckpointStatus.COMPLETED,
        at=header.at,
        path=location.url,
        size_bytes=manifest.size,
    )
    shown = msgspec.structs.replace(details.checkpoints, retained=kept)
    return replace(end, details=msgspec.structs.replace(details, checkpoints=shown))


def _header_of_retained(job_id: JobId, details: JobDetails) -> SavepointHeader:
    return SavepointHeader(
        savepoint_id=job_id[:12],
        kind="checkpoint",
        at=details.end or details.start,
        stoker_version=__version__,
        spark_version=installed_spark(),
        expires=True,
        owner=details.owner,
    )


async def _has_batch(job_id: JobId, regions: Sequence[RegionId], storage: Storage) -> bool:
    """Whether any query has planned a batch."""
    for region in regions:
        if await storage.list(f"{checkpoint_folder(job_id, region)}/offsets"):
            return True
    return False
