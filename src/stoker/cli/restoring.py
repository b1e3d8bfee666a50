"""Starting jobs from savepoints: other versions of a job, or the saved one as it was."""

import asyncio
import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from stoker.cli.savepoint_texts import absolute_location
from stoker.client.blocking import BlockingClient
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import Ids, JobId
from stoker.pipeline.building import LoadedJob
from stoker.savepoints.locations import locate
from stoker.savepoints.manifest import artifact_path
from stoker.savepoints.origin import saved_graph
from stoker.storage.open import open_storage


def restore_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what a job may start from, as `restore`."""

    @click.option(
        "-s",
        "--from-savepoint",
        "savepoint",
        metavar="PATH",
        help="Start from this savepoint or retained checkpoint.",
    )
    @click.option(
        "-n",
        "--allow-non-restored-state",
        "allow",
        is_flag=True,
        help="Leave saved state behind that the job has no query for.",
    )
    @functools.wraps(command)
    def with_restore(*args: Any, savepoint: str | None, allow: bool, **kwargs: Any) -> Any:
        path = absolute_location(savepoint)
        restore = None if path is None else Restore(path=path, allow_non_restored_state=allow)
        return command(*args, restore=restore, **kwargs)

    return with_restore


def from_savepoint(loaded: LoadedJob, restore: Restore | None) -> LoadedJob:
    if restore is None:
        return loaded
    return replace(loaded, graph=msgspec.structs.replace(loaded.graph, restore=restore))


@contextmanager
def saved_job(path: str) -> Iterator[tuple[JobGraph, dict[str, Path]]]:
    """The job that a savepoint was taken of, under a new id, and its files by their checksums."""
    location = locate(path, open_storage)
    graph = asyncio.run(saved_graph(location))
    with tempfile.TemporaryDirectory(prefix="stoker-saved-") as folder:
        files = {a.sha256: Path(folder) / a.sha256 for a in graph.artifacts}
        for sha256, target in files.items():
            inside = location.inside(artifact_path(sha256))
            asyncio.run(location.parent.download(inside, target))
        yield msgspec.structs.replace(graph, job_id=Ids().job(), idempotency_key=None), files


def start_saved(
    client: BlockingClient,
    savepoint: str,
    *,
    origin: str | None = None,
    configuration: dict[str, str] | None = None,
) -> JobId:
    """The saved job as it was, from that savepoint or from another origin."""
    with saved_job(savepoint) as (graph, files):
        changed = msgspec.structs.replace(
            graph,
            restore=Restore(path=origin or savepoint),
            configuration=graph.configuration | (configuration or {}),
        )
        return client.submit(changed, files).job_id
