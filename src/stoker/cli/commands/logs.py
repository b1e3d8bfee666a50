"""`stoker logs`: what the attempts of a job wrote."""

import codecs
import json
import sys
from collections.abc import Iterable

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.jobs import job_argument, job_named
from stoker.cli.options.invocation import Invocation, shared_options
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
    With --json, a line of JSON for each piece as it comes.

    Example: stoker logs nightly-load --follow
    """
    with connect(invocation) as client:
        found = Job(client, job_named(client, job))
        pieces = found.logs(stream or "stdout", follow=follow)
        if invocation.json:
            _echo_lines(pieces, stream or "stdout")
            return OK
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    return OK


def _echo_lines(pieces: Iterable[bytes], stream: str) -> None:
    """A piece may end within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for piece in pieces:
        if text := decoder.decode(piece):
            click.echo(json.dumps({"stream": stream, "text": text}))
    if rest := decoder.decode(b"", final=True):
        click.echo(json.dumps({"stream": stream, "text": rest}))
