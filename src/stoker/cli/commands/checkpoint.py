"""`stoker checkpoint`: what a job has committed, and whether a checkpoint is whole."""

import asyncio

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.job_group import JobGroup
from stoker.cli.jobs import job_argument, job_named
from stoker.cli.locations import absolute_location
from stoker.cli.options.flink import which_cluster
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_value
from stoker.cli.savepoint_texts import checkpoints_text, examination_text
from stoker.cli.terminal import say
from stoker.savepoints.examination import Examination, cut_back, examine
from stoker.storage.open import open_place


@click.group(cls=JobGroup)
def checkpoint() -> None:
    """Make and list checkpoints of a job; find out what is wrong with one.

    As with Flink, stoker checkpoint JOB makes one.
    """


@checkpoint.command()
@job_argument
@click.option("-full", "--full", is_flag=True, hidden=True)
@which_cluster
@shared_options
def trigger(invocation: Invocation, job: str, full: bool) -> int:
    """Return when a streaming job has made its next checkpoint, with its number.

    Spark makes one with every batch, so this waits for the next batch.

    Example: stoker checkpoint trigger clicks
    """
    if full:
        say("Spark decides itself when it writes the whole state; --full changes nothing.")
    with connect(invocation) as client:
        job_id = job_named(client, job)
        number = client.checkpoint(job_id)
    if invocation.json:
        echo_value({"job_id": job_id, "checkpoint": number})
    else:
        click.echo(f"Checkpoint {number} of job {job_id} is made.")
    return OK


@checkpoint.command("list")
@job_argument
@shared_options
def list_checkpoints(invocation: Invocation, job: str) -> int:
    """List the last checkpoints and savepoints of a job with their figures, newest first.

    Example: stoker checkpoint list clicks --json
    """
    with connect(invocation) as client:
        details = client.job(job_named(client, job))
    if invocation.json:
        echo_value(details.checkpoints)
    else:
        click.echo(checkpoints_text(details.checkpoints))
    return OK


@checkpoint.command()
@click.argument("path")
@click.option(
    "--cut-to",
    metavar="DIR",
    help="Copy the checkpoint there, with each query at its last good batch.",
)
@shared_options
def verify(invocation: Invocation, path: str, cut_to: str | None) -> int:
    """Say whether a checkpoint or savepoint is whole; if not, which file, and what is left.

    PATH is a savepoint, the checkpoint of one query, or a directory with those of several. It is
    read from this machine and never changed. The exit code is 1 when something is wrong.

    Example: stoker checkpoint verify /savepoints/savepoint-4f1c2a-9d0e --cut-to /repaired
    """
    examination = asyncio.run(_examine(absolute_location(path) or path, cut_to))
    if invocation.json:
        echo_value(_plain(examination))
    else:
        click.echo(examination_text(examination))
        if cut_to is not None:
            say(f"A copy at the last good batches is in {cut_to}.")
    return OK if examination.is_sound else FAILED


async def _examine(path: str, cut_to: str | None) -> Examination:
    examination = await examine(path, open_place)
    if cut_to is not None:
        await cut_back(examination, absolute_location(cut_to) or cut_to, open_place)
    return examination


def _plain(examination: Examination) -> dict[str, object]:
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
