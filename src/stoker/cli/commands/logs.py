"""`stoker logs`: what the attempts of a job wrote."""

import sys

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.invocation import Invocation, shared_options
from stoker.cli.jobs import job_argument, job_named
from stoker.client.cluster import Job


@click.command()
@job_argument
@click.option(
    "--stderr", "stream", flag_value="stderr", help="What went to the error stream, not to stdout."
)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@shared_options
def logs(invocation: Invocation, job: str, stream: str | None, follow: bool) -> int:
    """Print what a job wrote, in its current attempts.

    JOB is an id, the beginning of one, or a name. Works while the job runs and after its end.

    Example: stoker logs nightly-load --follow
    """
    with connect(invocation) as client:
        found = Job(client, job_named(client, job))
        for piece in found.logs(stream or "stdout", follow=follow):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    return OK
