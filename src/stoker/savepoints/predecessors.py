"""The ended job that a new streaming job continues, because it writes into the same output.

Spark's file sink skips every batch that is in its log. A job that starts without a checkpoint in an
output with batches would silently lose rows, so it may not begin there. But when it is surely known
which checkpoint belongs to the output, the job can begin with that one and simply goes on, as a
plain Spark program with its own checkpoint directory does.

It is sure when all of this holds:
- every output names the same job as its last writer (`outputs`), so its batches are of that job;
- that job has ended and left a checkpoint (`retained`): a running job has none;
- the checkpoint is exactly at the last batch of every output, so nothing was written after it, and
  no output was removed;
- the new job has the name of the ended one and writes each output by the same query. Another job in
  the same directory is more likely a mistake.

A new job that cannot continue is refused here, with the way out, if the ended job has left a
checkpoint, and otherwise by the query itself (`SinkIsAhead`).
"""

import logging
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from stoker.core.errors import Forbidden, IncompatibleSavepoint, InvalidInput, StokerError
from stoker.core.graph import FormatWrite, JobGraph, JobType, Restore, Sink
from stoker.core.ids import JobId
from stoker.core.spark_paths import local_path
from stoker.savepoints.access import ALL_SAVEPOINTS, SavepointAccess
from stoker.savepoints.compatibility import compare
from stoker.savepoints.locations import SavepointLocation, SavepointServices, read_manifest
from stoker.savepoints.manifest import SavedQuery, SavepointManifest
from stoker.savepoints.outputs import OutputLog, output_of, read_log
from stoker.savepoints.restore import saved_graph
from stoker.savepoints.retained import last_checkpoint
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Output:
    """The output of a sink, in a directory that this machine sees."""

    sink: str
    path: str
    log: OutputLog


async def continue_output(
    graph: JobGraph,
    storage: Storage,
    services: SavepointServices,
    access: SavepointAccess = ALL_SAVEPOINTS,
) -> JobGraph:
    """The graph, with the checkpoint to start from if it continues the outputs of an ended job.

    Raises InvalidInput when it would have to continue and cannot, and Forbidden when the checkpoint
    belongs to somebody else.
    """
    if graph.restore is not None or graph.job_type is not JobType.STREAMING:
        return graph
    if not services.options.continues_output(graph.configuration):
        return graph
    try:
        outputs = await _outputs_of(graph, services)
        writer = common_writer(outputs)
        location = None if writer is None else await last_checkpoint(writer, storage, services)
        if location is None:
            return graph
        manifest = await read_manifest(location)
        saved = await saved_graph(location)
    except StokerError as error:
        # The query itself refuses to begin where rows would be lost.
        log.warning("job %s: whether it continues an output is unknown: %s", graph.job_id, error)
        return graph
    if not access.allows(manifest.owner):
        raise _foreign_output(outputs, manifest)
    reasons = reasons_against(outputs, manifest, saved, graph)
    if reasons:
        raise _cannot_continue(outputs, manifest, location, reasons)
    log.info("job %s continues the outputs of job %s", graph.job_id, manifest.job_id)
    return _starting_from(graph, location)


def _starting_from(graph: JobGraph, location: SavepointLocation) -> JobGraph:
    return msgspec.structs.replace(graph, restore=Restore(path=location.url, by_cluster=True))


async def _outputs_of(graph: JobGraph, services: SavepointServices) -> list[Output]:
    found = []
    for sink in graph.vertices:
        output = output_of(sink) if isinstance(sink, Sink) else None
        path = local_path(output) if output is not None else None
        if output is None or path is None or not path.is_absolute():
            continue
        content = await read_log(str(path), services.open_storage)
        found.append(Output(sink=sink.name, path=output, log=content))
    return found


def common_writer(outputs: list[Output]) -> JobId | None:
    """Pure. The one job that wrote every output which has batches; None if there is none."""
    writers = {output.log.writer for output in outputs if output.log.last_batch >= 0}
    return writers.pop() if len(writers) == 1 else None


def reasons_against(
    outputs: list[Output], manifest: SavepointManifest, saved: JobGraph, new: JobGraph
) -> list[str]:
    """Pure. Why the new job cannot continue from the checkpoint by itself; empty if it can."""
    reasons = []
    if saved.name != new.name:
        reasons.append(f"that job is named {saved.name}, and this one {new.name}")
    sinks = {each.name: each for each in saved.vertices if isinstance(each, Sink)}
    for output in outputs:
        reasons += _reasons_of(output, sinks, manifest)
    findings = compare(manifest, saved, new).refusals(allow_non_restored_state=False)
    return [*reasons, *map(str, findings)]


def _reasons_of(
    output: Output, sinks: Mapping[str, Sink], manifest: SavepointManifest
) -> list[str]:
    before = sinks.get(output.sink)
    write = before.write if before is not None else None
    if not isinstance(write, FormatWrite) or write.path != output.path:
        if output.log.last_batch < 0:
            return []
        return [f"that job did not write {output.path} by a sink named {output.sink}"]
    query = manifest.query(output.sink)
    if query is not None and output.log.last_batch not in _batches_written(query):
        return [
            f"{output.path} {_position(output.log)}, and the checkpoint of {output.sink} is at "
            f"{'no batch' if query.batch_id is None else f'batch {query.batch_id}'}"
        ]
    return []


def _batches_written(query: SavedQuery) -> set[int]:
    """The last batches that the output may have: a planned one may be written or not."""
    committed = -1 if query.batch_id is None else query.batch_id
    return {committed, committed + 1} if query.pending else {committed}


def _position(output: OutputLog) -> str:
    return "has no batch" if output.last_batch < 0 else f"has the batches up to {output.last_batch}"


def _foreign_output(outputs: list[Output], manifest: SavepointManifest) -> Forbidden:
    path = _written_path(outputs)
    return Forbidden(
        f"{path} holds the output of a job of {manifest.owner or 'an unknown owner'}; only its "
        "owner, or a token with the role operate, can continue it: write into another directory",
        path=path,
    )


def _written_path(outputs: list[Output]) -> str:
    return next(output.path for output in outputs if output.log.last_batch >= 0)


def _cannot_continue(
    outputs: list[Output],
    manifest: SavepointManifest,
    location: SavepointLocation,
    reasons: list[str],
) -> InvalidInput:
    path = _written_path(outputs)
    return IncompatibleSavepoint(
        location.url,
        [
            *reasons,
            f"{path} holds the output of job {manifest.job_id} ({manifest.job_name}), whose last "
            "checkpoint this is: write into another directory, or start from the checkpoint "
            f"nevertheless with stoker run -s {shlex.quote(location.url)} FILE",
        ],
    )
