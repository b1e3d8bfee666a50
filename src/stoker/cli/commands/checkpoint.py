"""`stoker checkpoint`: what a job has committed, and whether a checkpoint is undamaged."""

import asyncio

import click

from stoker.cli.click_groups import JobGroup
from stoker.cli.connection import connect
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.job_argument import find_job, job_argument, optional_job_argument
from stoker.cli.options.flink import flink_cluster_options
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import absolute_location, echo_json, say
from stoker.cli.savepoint_texts import checkpoints_text, examination_text, savepoints_text
from stoker.client.blocking import BlockingClient
from stoker.savepoints.examination import Examination, cut_back, examine
from stoker.storage.open import open_place


@click.group(cls=JobGroup)
def checkpoint() -> None:
    """Trigger, list and verify checkpoints.

    stoker checkpoint JOB triggers one, as with Flink.
    """


@checkpoint.command()
@job_argument
@click.option("-full", "--full", is_flag=True, hidden=True)
@flink_cluster_options
@shared_options
def trigger(invocation: Invocation, job: str, full: bool) -> int:
    """Wait for the next checkpoint of a streaming job and print its number.

    Spark writes a checkpoint with every batch, so this waits for the next batch.

    Example: stoker checkpoint trigger clicks
    """
    if full:
        say("--full has no effect: Spark itself decides when to write the whole state.")
    with connect(invocation) as client:
        job_id = find_job(client, job)
        number = client.checkpoint(job_id)
    if invocation.json:
        echo_json({"job_id": job_id, "checkpoint": number})
    else:
        click.echo(f"Job {job_id} has completed checkpoint {number}.")
    return OK


@checkpoint.command("list")
@optional_job_argument
@shared_options
def list_checkpoints(invocation: Invocation, job: str | None) -> int:
    """List the latest checkpoints and savepoints of a job with their figures, newest first.

    Without JOB, list the checkpoints that are kept of ended jobs. A job that writes into the output
    of such a job continues from its checkpoint; stoker run -s PATH FILE starts from any of them.

    Example: stoker checkpoint list clicks --json
    """
    with connect(invocation) as client:
        if job is None:
            return _list_retained(invocation, client)
        details = client.job(find_job(client, job))
    if invocation.json:
        echo_json(details.checkpoints)
    else:
        click.echo(checkpoints_text(details.checkpoints))
    return OK


def _list_retained(invocation: Invocation, client: BlockingClient) -> int:
    found = client.retained_checkpoints()
    if invocation.json:
        echo_json(found)
    else:
        click.echo(savepoints_text(found) if found else "No checkpoint of an ended job is kept.")
    return OK


@checkpoint.command()
@click.argument("path")
@shared_options
def dispose(invocation: Invocation, path: str) -> int:
    """Remove a checkpoint that is kept of an ended job.

    Example: stoker checkpoint dispose /retained/checkpoint-4f1c2a9d0e
    """
    wanted = absolute_location(path) or path
    with connect(invocation) as client:
        client.dispose_savepoint(wanted)
    if invocation.json:
        echo_json({"disposed": wanted})
    else:
        click.echo(f"Removed {wanted}.")
    return OK


@checkpoint.command()
@click.argument("path")
@click.option(
    "--cut-to",
    metavar="DIR",
    help="Copy the checkpoint to this directory, each query cut back to its last good batch.",
)
@shared_options
def verify(invocation: Invocation, path: str, cut_to: str | None) -> int:
    """Find out whether a checkpoint or savepoint is damaged, where, and what is still usable.

    PATH is a savepoint, the checkpoint of one query, or a directory with the checkpoints of
    several. This machine reads it, and nothing in it is changed. The exit code is 1 when a file is
    damaged or missing.

    Example: stoker checkpoint verify /savepoints/savepoint-4f1c2a-9d0e --cut-to /repaired
    """
    examination = asyncio.run(_examine(absolute_location(path) or path, cut_to))
    if invocation.json:
        echo_json(_as_json(examination))
    else:
        click.echo(examination_text(examination))
        if cut_to is not None:
            say(f"The copy, cut back to the last good batches, is in {cut_to}.")
    return OK if examination.is_sound else FAILED


async def _examine(path: str, cut_to: str | None) -> Examination:
    examination = await examine(path, open_place)
    if cut_to is not None:
        await cut_back(examination, absolute_location(cut_to) or cut_to, open_place)
    return examination


def _as_json(examination: Examination) -> dict[str, object]:
    return {
        "path": examination.path,
        "sound": examination.is_sound,
        "wrong_files": examination.wrong_files,
        "queries": [
            {
                "query": query.query,
                "last_commit": query.last_commit,
                "last_good": query.last_good,
                "damages": [str(damage) for damage in query.damages],
            }
            for query in examination.queries
        ],
    }
