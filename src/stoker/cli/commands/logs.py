"""`stoker logs`: what the attempts of a job printed."""

import codecs
import json
import sys
from collections.abc import Iterable

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.job_argument import find_job, job_argument
from stoker.cli.logs_hint import has_printed
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import say
from stoker.client.blocking import BlockingClient
from stoker.client.operations import log
from stoker.core.ids import JobId


@click.command()
@job_argument
@click.option(
    "--stderr", "stream", flag_value="stderr", help="The error stream instead of standard output."
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the job has ended.")
@shared_options
def logs(invocation: Invocation, job: str, stream: str | None, follow: bool) -> int:
    """Print what the current attempts of a job have printed.

    JOB is an id, the beginning of one, or a name. The job may be running or ended. With --json,
    each piece is printed as a line of JSON as it arrives.

    Example: stoker logs nightly-load --follow
    """
    with connect(invocation) as client:
        job_id = find_job(client, job)
        pieces = client.stream(log(job_id, stream or "stdout", follow=follow))
        if invocation.json:
            _echo_lines(pieces, stream or "stdout")
            return OK
        printed = False
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            printed = printed or bool(piece)
        if not printed and stream is None:
            _say_why_empty(client, job_id)
    return OK


def _say_why_empty(client: BlockingClient, job_id: JobId) -> None:
    if has_printed(client, client.job(job_id), "stderr"):
        say(f"Nothing on standard output; there is more in: stoker logs {job_id[:12]} --stderr")
    else:
        say("The job has printed nothing.")


def _echo_lines(pieces: Iterable[bytes], stream: str) -> None:
    """A piece may end in the middle of a character, so it is decoded incrementally."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for piece in pieces:
        if text := decoder.decode(piece):
            click.echo(json.dumps({"stream": stream, "text": text}))
    if rest := decoder.decode(b"", final=True):
        click.echo(json.dumps({"stream": stream, "text": rest}))
