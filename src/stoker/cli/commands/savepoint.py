"""`stoker savepoint`: take, list, show and remove savepoints."""

import asyncio

import click

from stoker.cli.begun import tell_begun
from stoker.cli.connection import connect
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.job_group import JobGroup
from stoker.cli.jobs import job_argument, job_named
from stoker.cli.locations import absolute_location
from stoker.cli.options.flink import (
    detached_option,
    savepoint_format,
    understood_option,
    which_cluster,
)
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_value
from stoker.cli.savepoint_texts import manifest_text, savepoints_text
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.restore import verify
from stoker.storage.open import open_place


@click.group(cls=JobGroup, also={"-d": "dispose", "--dispose": "dispose"})
def savepoint() -> None:
    """Take, list, show and remove savepoints of streaming jobs.

    A savepoint is a directory of its own that can be copied anywhere. Start a job from one with
    stoker run -s PATH FILE; stoker stop ends a job with one.

    As with Flink, stoker savepoint JOB [DIRECTORY] takes one, and -d PATH removes one.
    """


# Flink needs the classes of a program to remove its savepoint; ours are files, and no code.
_program_of_flink = understood_option("-j", "--jarfile", metavar="FILE")


@savepoint.command()
@job_argument
@click.argument("directory", required=False)
@click.option("--cancel", is_flag=True, help="Cancel the job when the savepoint is there.")
@detached_option
@savepoint_format
@_program_of_flink
@which_cluster
@shared_options
def trigger(
    invocation: Invocation, job: str, directory: str | None, cancel: bool, detached: bool
) -> int:
    """Take a savepoint of a running job, which goes on meanwhile.

    DIRECTORY is a path or URL that the masters reach; else the option
    execution.checkpointing.savepoint-dir says where it goes.

    Example: stoker savepoint trigger clicks /savepoints
    """
    with connect(invocation) as client:
        job_id = job_named(client, job)
        place = absolute_location(directory)
        if detached:
            trigger_id = client.begin_savepoint(job_id, place, cancel=cancel)
            return tell_begun(invocation, job_id, trigger_id)
        path = client.savepoint(job_id, place, cancel=cancel)
    _tell(invocation, {"job_id": job_id, "savepoint": path}, path)
    return OK


@savepoint.command("list")
@click.argument("directory", required=False)
@shared_options
def list_savepoints(invocation: Invocation, directory: str | None) -> int:
    """List the savepoints of a directory, by default the configured one.

    Example: stoker savepoint list /savepoints
    """
    with connect(invocation) as client:
        found = client.savepoints(absolute_location(directory))
    where = "there" if directory is None else f"in {directory}"
    text = savepoints_text(found) if found else f"There is no savepoint {where}."
    _tell(invocation, found, text)
    return OK


@savepoint.command()
@click.argument("path")
@click.option("--verify", "check", is_flag=True, help="Compare every file with its checksum.")
@shared_options
def show(invocation: Invocation, path: str, check: bool) -> int:
    """Show what is in a savepoint: job, batches, positions of sources, state.

    Read from this machine; no cluster is asked.

    Example: stoker savepoint show /savepoints/savepoint-4f1c2a-9d0e --verify
    """
    location = locate(absolute_location(path) or path, open_place)
    manifest = asyncio.run(read_manifest(location))
    wrong = asyncio.run(verify(location, manifest)) if check else []
    text = manifest_text(location.url, manifest)
    if check:
        text += "\n\n" + ("\n".join(wrong) or "Every file is as it was saved.")
    _tell(invocation, {"manifest": manifest, "wrong_files": wrong}, text)
    return FAILED if wrong else OK


@savepoint.command()
@click.argument("path")
@_program_of_flink
@which_cluster
@shared_options
def dispose(invocation: Invocation, path: str) -> int:
    """Remove a savepoint. Checkpoints of jobs that run are never touched.

    Example: stoker savepoint dispose /savepoints/savepoint-4f1c2a-9d0e
    """
    wanted = absolute_location(path) or path
    with connect(invocation) as client:
        client.dispose_savepoint(wanted)
    _tell(invocation, {"disposed": wanted}, f"{wanted} is gone.")
    return OK


@savepoint.command()
@click.argument("path")
@click.argument("partitions", type=click.IntRange(min=1))
@click.option("--to", "target", metavar="DIR", help="Directory for the new savepoint.")
@shared_options
def repartition(invocation: Invocation, path: str, partitions: int, target: str | None) -> int:
    """Make a savepoint whose state has another number of partitions.

    A Spark of its own does it on this machine; the savepoint at PATH stays as it is.

    Example: stoker savepoint repartition /savepoints/savepoint-4f1c2a-9d0e 8
    """
    # It brings Spark along, which no other of these commands needs.
    from stoker.processes.repartitioning import repartition_savepoint  # noqa: PLC0415

    made = asyncio.run(
        repartition_savepoint(
            absolute_location(path) or path, partitions, absolute_location(target)
        )
    )
    _tell(invocation, {"savepoint": made, "partitions": partitions}, made)
    return OK


def _tell(invocation: Invocation, value: object, text: str) -> None:
    if invocation.json:
        echo_value(value)
    else:
        click.echo(text)
