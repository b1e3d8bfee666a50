"""`stoker wait`."""

import click

from stoker.cli.connection import connect, connect_patiently, find_masters
from stoker.cli.display import opened
from stoker.cli.ending import ending_text, exit_code_of
from stoker.cli.following import Following, Left, Wish
from stoker.cli.jobs import job_argument, job_named
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_value
from stoker.cli.terminal import display_for_errors


def _leave() -> Wish:
    return Wish.LEAVE


@click.command()
@job_argument
@shared_options
def wait(invocation: Invocation, job: str) -> int:
    """Watch a job until it ends; the exit code tells how. Ctrl-C leaves it running.

    Example: stoker wait clicks && echo it is done
    """
    with connect(invocation) as client:
        job_id = job_named(client, job)
        client.status(job_id)
    masters = find_masters(invocation) or ""
    patient = connect_patiently(masters, invocation)
    with opened(display_for_errors(quiet=invocation.json)) as display:
        try:
            details = Following(patient, job_id, display, _leave).until_end()
        except Left:
            raise KeyboardInterrupt from None
    if invocation.json:
        echo_value(details)
    else:
        click.echo(ending_text(details))
    return exit_code_of(details)
