"""`stoker cancel`."""

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.jobs import job_argument, job_named
from stoker.cli.locations import absolute_location
from stoker.cli.options.flink import Spelled, which_cluster
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_value
from stoker.cli.terminal import say


@click.command()
@job_argument
@click.option(
    "-s",
    "--with-savepoint",
    "directory",
    cls=Spelled,
    also=("--withSavepoint",),
    metavar="[DIR]",
    is_flag=False,
    flag_value="",
    help="Take a savepoint there first, or where they go by default; without one the job goes on. "
    "stoker stop is better.",
)
@click.option(
    "--wait/--no-wait",
    default=True,
    help="Return when the job is gone, or as soon as the wish is recorded.",
)
@which_cluster
@shared_options
def cancel(invocation: Invocation, job: str, directory: str | None, wait: bool) -> int:
    """Cancel a job and wait until it is gone.

    Once this was accepted the job is driven to its end, even if masters die meanwhile.

    Example: stoker cancel nightly-load
    """
    with connect(invocation) as client:
        job_id = job_named(client, job)
        if directory is None:
            client.cancel(job_id)
        else:
            place = absolute_location(directory or None)
            say(f"Savepoint: {client.savepoint(job_id, place, cancel=True)}")
        if wait:
            if not invocation.json:
                say(f"Cancelling job {job_id}; it is recorded, Ctrl-C does not take it back.")
            client.wait(job_id)
        state = client.status(job_id)
    if invocation.json:
        echo_value({"job_id": job_id, "status": state})
    else:
        click.echo(f"Job {job_id} is {state.value}.")
    return OK
