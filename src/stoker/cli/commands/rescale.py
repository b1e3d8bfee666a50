"""`stoker rescale`: a running job with another number of state partitions."""

import asyncio

import click

from stoker.cli.connection import connect_patiently, find_masters
from stoker.cli.exit_codes import OK
from stoker.cli.invocation import Invocation, shared_options
from stoker.cli.jobs import job_argument, job_named
from stoker.cli.output import echo_value
from stoker.cli.restoring import start_saved
from stoker.cli.savepoint_texts import absolute_location
from stoker.cli.terminal import say
from stoker.core.errors import StokerError, Unavailable
from stoker.savepoints.logs import SHUFFLE_PARTITIONS


@click.command()
@job_argument
@click.argument("partitions", type=click.IntRange(min=1))
@click.option(
    "--savepoint-path", "directory", metavar="DIR", help="Directory or URL for the savepoints."
)
@shared_options
def rescale(invocation: Invocation, job: str, partitions: int, directory: str | None) -> int:
    """Stop a streaming job with a savepoint, divide its state anew, and start it from there.

    When the state cannot be divided the job goes on as it was.
    """
    # It brings Spark along.
    from stoker.processes.repartitioning import repartition_savepoint  # noqa: PLC0415

    masters = find_masters(invocation)
    if masters is None:
        raise Unavailable("no cluster is named or running, so there is no job to rescale")
    client = connect_patiently(masters, invocation)
    job_id = job_named(client, job)
    savepoint = client.stop(job_id, absolute_location(directory))
    client.wait(job_id)
    say(f"Job {job_id} is stopped; its savepoint is {savepoint}.")
    try:
        made = asyncio.run(repartition_savepoint(savepoint, partitions, None))
    except StokerError:
        again = start_saved(client, savepoint)
        say(f"The job goes on as it was, as job {again}.")
        raise
    settings = {SHUFFLE_PARTITIONS: str(partitions)}
    started = start_saved(client, made, configuration=settings)
    if invocation.json:
        echo_value({"job_id": started, "savepoint": made, "partitions": partitions})
    else:
        click.echo(started)
        say(f"Job {started} goes on from {made} with {partitions} partitions.")
    return OK
