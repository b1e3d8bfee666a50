"""`stoker upgrade`: another version of a running job, with a way back."""

import click

from stoker.cli.connection import connect_patiently, find_masters
from stoker.cli.exit_codes import FAILED, OK
from stoker.cli.invocation import Invocation, shared_options
from stoker.cli.job_file import JobFile, job_file_options
from stoker.cli.jobs import job_argument, job_named
from stoker.cli.output import echo_value
from stoker.cli.savepoint_texts import absolute_location
from stoker.cli.terminal import say
from stoker.cli.upgrading import Upgrade
from stoker.core.errors import Unavailable


@click.command()
@job_argument
@click.option(
    "--savepoint-path", "directory", metavar="DIR", help="Directory or URL for the savepoint."
)
@click.option(
    "--window",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long the new version must run without a failure.",
)
@click.option("-n", "--allow-non-restored-state", "allow", is_flag=True, help="As with stoker run.")
@job_file_options
@shared_options
def upgrade(
    invocation: Invocation,
    job: str,
    directory: str | None,
    window: float,
    allow: bool,
    job_file: JobFile,
) -> int:
    """Replace a running streaming job by another version of it.

    JOB is stopped with a savepoint, FILE starts from it and is watched for a while. If it is
    refused, fails or has to restart meanwhile, the old version goes on from where the new one
    was: nothing is lost and nothing is written twice. The savepoint must be in a place that this
    machine reaches too.
    """
    loaded = job_file.load()
    masters = find_masters(invocation)
    if masters is None:
        raise Unavailable("no cluster is named or running, so there is no job to upgrade")
    client = connect_patiently(masters, invocation)
    upgraded = Upgrade(
        client=client,
        say=say,
        window_seconds=window,
        directory=absolute_location(directory),
        allow_non_restored_state=allow,
    ).run(job_named(client, job), loaded)
    if invocation.json:
        echo_value(upgraded)
    else:
        click.echo(upgraded.job_id)
    return FAILED if upgraded.rolled_back else OK
