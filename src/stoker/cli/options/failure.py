"""The option of commands that tell why a job failed."""

import click

trace_option = click.option(
    "--trace",
    is_flag=True,
    help="Show the whole message and the stack trace of a failure, not only its cause.",
)
