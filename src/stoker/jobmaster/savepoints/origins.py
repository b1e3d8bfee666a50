"""The state from which a job starts, and the checkpoint that is retained at its end."""

import logging
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
from stoker.core.regions import regions_of
from stoker.core.values import Millis
from stoker.gateways.job import JobEnd
from stoker.jobmaster.savepoints.operations import artifacts_of, installed_spark
from stoker.savepoints.locations import SavepointLocation, SavepointServices, locate
from stoker.savepoints.restore import (
    RestoreRecord,
    check_savepoint_of,
    read_restore_record,
    restore,
)
from stoker.savepoints.take import SavepointHeader, SavepointWriter
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

    Its name derives from the job id, so that a leader that repeats this makes no second one. A
    failure is logged and does not prevent the end of the job.
    """
    regions = [region.id for region in regions_of(graph) if region.streaming]
    retention = services.options.retention_of(graph.configuration)
    details = end.details
    if not regions or not retention.keeps(details.status):
        return end
    at = details.end or details.start
    header = SavepointHeader(
        savepoint_id=graph.job_id[:12],
        kind="checkpoint",
        at=at,
        stoker_version=__version__,
        spark_version=installed_spark(),
    )
    try:
        location = _retained_location(graph, storage, services)
        writer = SavepointWriter(storage, graph, location, header, artifacts_of(graph))
        manifest = await writer.write(regions)
    except StokerError as error:
        log.error("the last checkpoint could not be retained: %s", error)
        return end
    log.info("the last checkpoint is retained at %s", location.url)
    kept = CheckpointEntry(
        id=0,
        kind=CheckpointKind.CHECKPOINT,
        status=CheckpointStatus.COMPLETED,
        at=at,
        path=location.url,
        size_bytes=manifest.size,
    )
    shown = msgspec.structs.replace(details.checkpoints, retained=kept)
    return replace(end, details=msgspec.structs.replace(details, checkpoints=shown))


def _retained_location(
    graph: JobGraph, storage: Storage, services: SavepointServices
) -> SavepointLocation:
    name = f"checkpoint-{graph.job_id}"
    directory = services.options.retained_directory
    if directory is not None:
        return locate(f"{directory.rstrip('/')}/{name}", services.open_storage)
    inside = f"retained/{name}"
    return SavepointLocation(parent=storage, name=inside, url=storage.url(inside))
