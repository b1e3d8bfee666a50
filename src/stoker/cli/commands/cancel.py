"""`stoker cancel`."""

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.job_argument import find_job, job_argument
from stoker.cli.options.flink import AliasedOption, flink_cluster_options
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import absolute_location, echo_json, say
from stoker.cli.savepoint_texts import left_state_text


@click.command()
@job_argument
@click.option(
    "--with-savepoint",
    "directory",
    cls=AliasedOption,
    aliases=("-s", "--withSavepoint"),
    metavar="[DIR]",
    is_flag=False,
    flag_value="",
    help="Take a savepoint in this directory first, or in the configured one; if that fails "
    "the job keeps running. stoker stop is the better way.",
)
@click.option(
    "--wait/--no-wait",
    default=True,
    help="Return when the job has ended, or as soon as the request is recorded.",
)
@flink_cluster_options
@shared_options
def cancel(invocation: Invocation, job: str, directory: str | None, wait: bool) -> int:
    """Cancel a job and wait until it has ended.

    The job ends at once, in the middle of a batch. An accepted request is carried out, even if
    masters die meanwhile. The last checkpoint of a streaming job is kept, unless the cluster or the
    job is configured otherwise: another run into the same output continues from there, and the
    cluster removes the checkpoint when it is old or newer ones are enough.

    stoker stop ends a streaming job with a savepoint instead: at the end of a batch, with a copy
    that stays until you remove it.

    Example: stoker cancel nightly-load
    """
    with connect(invocation) as client:
        job_id = find_job(client, job)
        if directory is None:
            client.cancel(job_id)
        else:
            place = absolute_location(directory or None)
            say(f"Savepoint: {client.savepoint(job_id, place, cancel=True)}")
        if wait:
            if not invocation.json:
                say(f"Cancelling job {job_id}. The request is recorded; Ctrl-C does not undo it.")
            client.wait(job_id)
        details = client.job(job_id)
    if invocation.json:
        retained = details.checkpoints.retained
        path = None if retained is None else retained.path
        echo_json({"job_id": job_id, "status": details.status, "retained_checkpoint": path})
        return OK
    click.echo(f"Job {job_id} is {details.status.value}.")
    if (left := left_state_text(details)) is not None:
        say(left)
    return OK
