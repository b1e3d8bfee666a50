"""`stoker stop`: end a streaming job with a savepoint."""

import shlex

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.job_argument import find_job, job_argument
from stoker.cli.options.flink import (
    AliasedOption,
    detached_option,
    flink_cluster_options,
    refused_option,
    savepoint_format,
)
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import absolute_location, echo_json, echo_trigger, say
from stoker.client.operations import BEGIN_SECONDS
from stoker.client.progress import have_streams_begun


@click.command()
@job_argument
@click.option(
    "--savepoint-path",
    "directory",
    cls=AliasedOption,
    aliases=("-p", "--savepointPath"),
    metavar="DIR",
    help="Directory or URL for the savepoint. Else that of execution.checkpointing.savepoint-dir, "
    "which a local cluster sets.",
)
@click.option(
    "--limit",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Time for the running batches to end; if one takes longer, the job keeps running.",
)
@detached_option
@savepoint_format
@refused_option(
    *("-d", "--drain"),
    reason="is not possible: Spark cannot close all windows at once; leave the option out",
    is_flag=True,
)
@flink_cluster_options
@shared_options
def stop(
    invocation: Invocation,
    job: str,
    directory: str | None,
    limit: float | None,
    detached: bool,
) -> int:
    """End a streaming job at batch boundaries, with a savepoint.

    Every batch that has begun is completed, and the savepoint stays until you remove it: another
    run continues exactly there. If the savepoint fails, for whatever reason, the job keeps running.
    A job that has only just been submitted is first waited for, for up to a minute.

    stoker cancel ends a job at once instead, in the middle of a batch; of a streaming job its last
    checkpoint is kept, which the cluster removes when it is old.

    Example: stoker stop clicks --savepoint-path /savepoints
    """
    with connect(invocation) as client:
        job_id = find_job(client, job)
        details = client.wait_until(job_id, have_streams_begun, BEGIN_SECONDS)
        if detached:
            place = absolute_location(directory)
            trigger_id = client.begin_stop(job_id, place, limit_seconds=limit)
            return echo_trigger(job_id, trigger_id, json=invocation.json)
        if not invocation.json and not details.status.globally_terminal:
            say(f"Stopping job {job_id} at the next batch boundary.")
        path = client.stop(job_id, absolute_location(directory), limit_seconds=limit)
        status = client.wait(job_id)
    if invocation.json:
        echo_json({"job_id": job_id, "status": status, "savepoint": path})
    else:
        click.echo(path)
        say(
            f"Job {job_id} is {status.value}. Continue from there with: "
            f"stoker run -s {shlex.quote(path)} FILE"
        )
    return OK
