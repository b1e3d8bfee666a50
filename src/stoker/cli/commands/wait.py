"""`stoker wait`."""

from contextlib import closing

import click

from stoker.cli.connection import connect, connect_patiently, find_masters
from stoker.cli.display import display_on_stderr, exit_code_of, job_end_text
from stoker.cli.follow import JobFollower, UserLeft, leave_without_question
from stoker.cli.job_argument import find_job, job_argument
from stoker.cli.logs_hint import logs_hint
from stoker.cli.options.failure import trace_option
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, say


@click.command()
@job_argument
@trace_option
@shared_options
def wait(invocation: Invocation, job: str, trace: bool) -> int:
    """Watch a job until it ends; the exit code is 0 if it FINISHED. Ctrl-C leaves it running.

    Example: stoker wait clicks && echo done
    """
    with connect(invocation) as client:
        job_id = find_job(client, job)
        client.status(job_id)
    masters = find_masters(invocation) or ""
    patient = connect_patiently(masters, invocation)
    with closing(display_on_stderr(quiet=invocation.json)) as display:
        try:
            details = JobFollower(patient, job_id, display, leave_without_question).until_end()
        except UserLeft:
            raise KeyboardInterrupt from None
    if invocation.json:
        echo_json(details)
    else:
        click.echo(job_end_text(details, trace=trace))
        if (hint := logs_hint(patient, details)) is not None:
            say(hint)
    return exit_code_of(details)
