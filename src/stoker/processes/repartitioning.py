"""Copies of savepoints with another number of state partitions.

The savepoint is restored into a temporary directory, a Spark in a process of its own repartitions
the state there, and a new savepoint is written from the result. The original stays unchanged.

Spark repartitions after a committed batch only. A batch that is planned and not committed is
therefore forgotten, and the new version plans it again with other offsets. That is allowed only
where the sink surely has no row of it; otherwise the savepoint is refused.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from stoker import __version__
from stoker.aio.clock import system_wall_clock
from stoker.core.errors import InvalidInput, SavepointFailed
from stoker.core.graph import FormatWrite, JobGraph, PythonFunction, Sink
from stoker.core.ids import Ids
from stoker.core.spark_paths import local_path
from stoker.engine.java import bundled_java_home, find_java
from stoker.osproc.parent_death import die_with_parent_command
from stoker.savepoints.copying import for_all
from stoker.savepoints.locations import (
    OpenStorage,
    SavepointLocation,
    locate,
    parent_and_name,
    read_manifest,
)
from stoker.savepoints.manifest import SavedFile, SavedQuery, SavepointManifest
from stoker.savepoints.outputs import LOG, last_batch
from stoker.savepoints.restore import copy_saved_file, restore, saved_graph
from stoker.savepoints.take import SavepointHeader, SavepointWriter, checkpoint_folder
from stoker.storage.contract import Storage
from stoker.storage.open import open_place

_MODULE = "stoker.engine.repartition"
_REPARTITIONABLE = "RocksDBStateStoreProvider"
_LEAVES_NOTHING = ("console", "memory", "noop")
"""Sinks that keep no rows, so that a repeated batch leaves no duplicates."""


async def repartitioned_savepoint(path: str, partitions: int, open_storage: OpenStorage) -> str:
    """Path of the savepoint for a rescale; the given one when none of its state has to change."""
    manifest = await read_manifest(locate(path, open_storage))
    if all(query.shuffle_partitions == partitions for query in _queries_to_repartition(manifest)):
        return path
    return await repartition_savepoint(path, partitions, None, open_storage)


async def repartition_savepoint(
    path: str, partitions: int, target: str | None, open_storage: OpenStorage
) -> str:
    """Path of the new savepoint; the original stays unchanged. A refusal names the reason."""
    location = locate(path, open_storage)
    manifest = await read_manifest(location)
    graph = await saved_graph(location)
    await _check(location, manifest, graph, partitions, open_storage)
    above, _ = parent_and_name(path)
    ids = Ids()
    savepoint_id = ids.nonce()[:12]
    made = locate(
        f"{(target or above).rstrip('/')}/savepoint-{manifest.job_id[:6]}-{savepoint_id}",
        open_storage,
    )
    with tempfile.TemporaryDirectory(prefix="stoker-repartition-") as folder:
        work = open_place(folder)
        regions = [query.region for query in manifest.queries]
        now = system_wall_clock()
        await restore(location, manifest, work, graph.job_id, regions=regions, now=now)
        stateful: list[Path] = []
        for query in _queries_to_repartition(manifest):
            checkpoint = Path(folder) / checkpoint_folder(graph.job_id, query.region)
            _forget_plan(query, checkpoint)
            if query.batch_id is not None:
                stateful.append(checkpoint)
        if stateful:
            await _run_repartition(partitions, stateful, Path(folder))
        artifacts = await _artifacts(location, manifest, work)
        header = SavepointHeader(
            savepoint_id=savepoint_id,
            kind=manifest.kind,
            at=now,
            stoker_version=__version__,
            spark_version=manifest.spark_version,
            stopped=manifest.stopped,
            owner=manifest.owner,
        )
        await SavepointWriter(work, graph, made, header, artifacts).write(regions)
    return made.url


def _queries_to_repartition(manifest: SavepointManifest) -> list[SavedQuery]:
    """Queries with state, and queries whose first batch was planned, which fixes the partitions."""
    return [q for q in manifest.queries if q.operators or (q.pending and q.batch_id is None)]


async def _check(
    location: SavepointLocation,
    manifest: SavepointManifest,
    graph: JobGraph,
    partitions: int,
    open_storage: OpenStorage,
) -> None:
    queries = _queries_to_repartition(manifest)
    for query in queries:
        if query.batch_id is not None and query.state_provider != _REPARTITIONABLE:
            raise InvalidInput(
                f"the state of {query.region} is kept by {query.state_provider}, which Spark "
                f"cannot repartition; only the state of {_REPARTITIONABLE} can be: start the query "
                "without its state, with that provider"
            )
        if query.shuffle_partitions == partitions:
            raise InvalidInput(f"the state of {query.region} has {partitions} partitions already")
        if query.pending and not await _plan_had_no_effect(manifest, query, graph, open_storage):
            raise InvalidInput(
                f"{location.url} holds a batch of {query.region} that was planned and may be "
                "written already; take the savepoint with stoker stop while the stream is idle"
            )
    if not queries:
        raise InvalidInput(f"{location.url} has no state that could be repartitioned")


async def _plan_had_no_effect(
    manifest: SavepointManifest, query: SavedQuery, graph: JobGraph, open_storage: OpenStorage
) -> bool:
    if not manifest.stopped:
        return False
    sink = graph.vertex(query.region)
    if not isinstance(sink, Sink):
        return False
    if isinstance(sink.write, PythonFunction):
        return True
    last = await _last_batch_in_sink(sink.write, query.batch_id, open_storage)
    return last <= _number(query.batch_id)


def _number(batch: int | None) -> int:
    """Batch number; -1, as before the first batch, for None."""
    return -1 if batch is None else batch


async def _last_batch_in_sink(
    write: FormatWrite, batch: int | None, open_storage: OpenStorage
) -> float:
    """The last batch in the log of a file sink; infinity where it cannot be known."""
    if write.format in _LEAVES_NOTHING:
        return -1
    target = local_path(write.path) if write.path is not None else None
    if target is None or not target.is_absolute():
        return float("inf")
    names = await open_storage(str(target / LOG)).list("")
    if not names:
        # Before its first commit a query has no log. Later a missing log has been lost.
        return -1 if batch is None else float("inf")
    return last_batch(names)


def _forget_plan(query: SavedQuery, checkpoint: Path) -> None:
    if query.pending:
        following = _number(query.batch_id) + 1
        for name in (f"{following}", f".{following}.crc"):
            (checkpoint / "offsets" / name).unlink(missing_ok=True)


async def _run_repartition(partitions: int, folders: list[Path], work: Path) -> None:
    java = await find_java(os.environ, work / "java", bundled_home=bundled_java_home())
    # Dies with this process, so that a killed master leaves no Spark behind.
    process = await asyncio.create_subprocess_exec(
        *die_with_parent_command(
            sys.executable, "-m", _MODULE, str(partitions), *map(str, folders)
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "JAVA_HOME": str(java.home)},
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise SavepointFailed(f"Spark could not repartition the state: {_reason(output)}")


def _reason(output: bytes) -> str:
    for line in reversed(output.decode(errors="replace").splitlines()):
        try:
            return str(json.loads(line)["error"])
        except (ValueError, KeyError, TypeError):
            continue
    return "it ended without an error message"


async def _artifacts(
    location: SavepointLocation, manifest: SavepointManifest, work: Storage
) -> dict[str, str]:
    files = [file for file in manifest.files if file.path.startswith("artifacts/")]

    async def fetch(file: SavedFile) -> tuple[str, str]:
        await copy_saved_file(location, file, work, file.path)
        return file.sha256, file.path

    return dict(await for_all(files, fetch))
