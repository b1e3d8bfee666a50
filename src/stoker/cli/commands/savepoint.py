"""`stoker savepoint`: take, list, show and remove savepoints."""

import asyncio

import click

from stoker.cli.click_groups import JobGroup
from stoker.cli.connection import connect, find_masters
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.job_argument import find_job, job_argument
from stoker.cli.options.flink import (
    detached_option,
    flink_cluster_options,
    ignored_option,
    savepoint_format,
)
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import absolute_location, echo_json, echo_trigger, say
from stoker.cli.savepoint_texts import manifest_text, savepoints_text
from stoker.core.errors import Unavailable
from stoker.processes.local.savepoint_directories import local_savepoint_directories
from stoker.savepoints.catalog import list_savepoints as read_savepoints
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.restore import verify
from stoker.storage.open import open_place


@click.group(cls=JobGroup, shortcuts={"-d": "dispose", "--dispose": "dispose"})
def savepoint() -> None:
    """Take, list, show and remove savepoints of streaming jobs.

    A savepoint is a self-contained directory that can be copied anywhere. Start a job from one
    with stoker run -s PATH FILE; stoker stop ends a job with one.

    As with Flink, stoker savepoint JOB [DIRECTORY] takes one, and -d PATH removes one.
    """


# Flink needs the classes of a program to remove its savepoint; Stoker removes files.
_flink_jar_option = ignored_option("-j", "--jarfile", metavar="FILE")


@savepoint.command()
@job_argument
@click.argument("directory", required=False)
@click.option("--cancel", is_flag=True, help="Cancel the job when the savepoint is complete.")
@detached_option
@savepoint_format
@_flink_jar_option
@flink_cluster_options
@shared_options
def trigger(
    invocation: Invocation, job: str, directory: str | None, cancel: bool, detached: bool
) -> int:
    """Take a savepoint of a job while it keeps running.

    DIRECTORY is a path or URL that the masters can reach; without it the option
    execution.checkpointing.savepoint-dir names the directory. A local cluster sets it to
    savepoints in its own directory.

    Example: stoker savepoint trigger clicks /savepoints
    """
    with connect(invocation) as client:
        job_id = find_job(client, job)
        place = absolute_location(directory)
        if detached:
            trigger_id = client.begin_savepoint(job_id, place, cancel=cancel)
            return echo_trigger(job_id, trigger_id, json=invocation.json)
        path = client.savepoint(job_id, place, cancel=cancel)
    _report(invocation, {"job_id": job_id, "savepoint": path}, path)
    return OK


@savepoint.command("list")
@click.argument("directory", required=False)
@shared_options
def list_savepoints(invocation: Invocation, directory: str | None) -> int:
    """List the savepoints in a directory, by default in the configured one.

    If no cluster is named or runs, this machine reads DIRECTORY, or the directories in which local
    clusters leave savepoints.

    Example: stoker savepoint list /savepoints
    """
    place = absolute_location(directory)
    if _is_cluster_known(invocation):
        with connect(invocation) as client:
            found = client.savepoints(place)
        where = "in the configured directory" if directory is None else f"in {directory}"
    else:
        places = [place] if place else local_savepoint_directories()
        found = [each for part in places for each in asyncio.run(read_savepoints(part, open_place))]
        where = f"in {' or '.join(places)}"
        say(f"No cluster runs, so the savepoints are those in {' and '.join(places)}.")
    text = savepoints_text(found) if found else f"There is no savepoint {where}."
    _report(invocation, found, text)
    return OK


def _is_cluster_known(invocation: Invocation) -> bool:
    """Whether a master is named, or one of the local cluster runs."""
    try:
        return find_masters(invocation) is not None
    except Unavailable:
        return False


@savepoint.command()
@click.argument("path")
@click.option("--verify", "check", is_flag=True, help="Compare every file with its checksum.")
@shared_options
def show(invocation: Invocation, path: str, check: bool) -> int:
    """Show the content of a savepoint: job, batches, positions of sources, state.

    This machine reads it; no cluster is needed.

    Example: stoker savepoint show /savepoints/savepoint-4f1c2a-9d0e --verify
    """
    location = locate(absolute_location(path) or path, open_place)
    manifest = asyncio.run(read_manifest(location))
    wrong = asyncio.run(verify(location, manifest)) if check else []
    text = manifest_text(location.url, manifest)
    if check:
        text += "\n\n" + ("\n".join(wrong) or "Every file is as it was saved.")
    _report(invocation, {"manifest": manifest, "wrong_files": wrong}, text)
    return FAILED if wrong else OK


@savepoint.command()
@click.argument("path")
@_flink_jar_option
@flink_cluster_options
@shared_options
def dispose(invocation: Invocation, path: str) -> int:
    """Remove a savepoint. Checkpoints of running jobs are never touched.

    Example: stoker savepoint dispose /savepoints/savepoint-4f1c2a-9d0e
    """
    wanted = absolute_location(path) or path
    with connect(invocation) as client:
        client.dispose_savepoint(wanted)
    _report(invocation, {"disposed": wanted}, f"Removed {wanted}.")
    return OK


@savepoint.command()
@click.argument("path")
@click.argument("partitions", type=click.IntRange(min=1))
@click.option("--to", "target", metavar="DIR", help="Directory for the new savepoint.")
@shared_options
def repartition(invocation: Invocation, path: str, partitions: int, target: str | None) -> int:
    """Copy a savepoint, with another number of partitions for its state.

    A Spark on this machine writes the copy; the savepoint at PATH is not changed.

    Example: stoker savepoint repartition /savepoints/savepoint-4f1c2a-9d0e 8
    """
    # Imported late: it imports Spark, which no other of these commands needs.
    from stoker.processes.repartitioning import repartition_savepoint  # noqa: PLC0415

    made = asyncio.run(
        repartition_savepoint(
            absolute_location(path) or path, partitions, absolute_location(target), open_place
        )
    )
    _report(invocation, {"savepoint": made, "partitions": partitions}, made)
    return OK


def _report(invocation: Invocation, value: object, text: str) -> None:
    if invocation.json:
        echo_json(value)
    else:
        click.echo(text)
