"""`stoker stop`: end a streaming job with a savepoint."""

import click

from stoker.cli.begun import tell_begun
from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.jobs import job_argument, job_named
from stoker.cli.locations import absolute_location
from stoker.cli.options.flink import (
    Spelled,
    detached_option,
    refused_option,
    savepoint_format,
    which_cluster,
)
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_value
from stoker.cli.terminal import say


@click.command()
@job_argument
@click.option(
    "-p",
    "--savepoint-path",
    "directory",
    cls=Spelled,
    also=("--savepointPath",),
    metavar="DIR",
    help="Directory or URL for the savepoint; else execution.checkpointing.savepoint-dir.",
)
@click.option(
    "--limit",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="For the batches that run to end; without a boundary by then the job goes on.",
)
@detached_option
@savepoint_format
@refused_option(
    *("-d", "--drain"),
    reason="is not possible: Spark cannot end all windows at once; leave it out",
    is_flag=True,
)
@which_cluster
@shared_options
def stop(
    invocation: Invocation,
    job: str,
    directory: str | None,
    limit: float | None,
    detached: bool,
) -> int:
    """End a streaming job at batch boundaries and keep where it ended as a savepoint.

    When there is no savepoint in the end, for whatever reason, the job goes on.

    Example: stoker stop clicks --savepoint-path /savepoints
    """
    with connect(invocation) as client:
        job_id = job_named(client, job)
        if detached:
            place = absolute_location(directory)
            trigger_id = client.begin_stop(job_id, place, limit_seconds=limit)
            return tell_begun(invocation, job_id, trigger_id)
        if not invocation.json:
            say(f"Stopping job {job_id} at the next batch boundary.")
        path = client.stop(job_id, absolute_location(directory), limit_seconds=limit)
        status = client.wait(job_id)
    if invocation.json:
        echo_value({"job_id": job_id, "status": status, "savepoint": path})
    else:
        click.echo(path)
        say(f"Job {job_id} is {status.value}. Go on from there: stoker run -s {path} FILE")
    return OK
