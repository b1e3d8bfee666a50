"""`stoker upgrade`: another version of a running job, with a way back."""

import click

from stoker.cli.connection import connect_patiently, find_masters
from stoker.cli.job_file import JobFile, job_file_options
from stoker.cli.jobs import job_argument, job_named
from stoker.cli.locations import absolute_location
from stoker.cli.options.flink import Spelled
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.upgrading import follow
from stoker.client.calls import Replacing
from stoker.core.errors import Unavailable


@click.command()
@job_argument
@click.option(
    "--savepoint-path",
    "directory",
    cls=Spelled,
    also=("--savepointPath",),
    metavar="DIR",
    help="Directory or URL for the savepoint.",
)
@click.option(
    "--window",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long the new version must run without a failure.",
)
@click.option(
    "-n",
    "--allow-non-restored-state",
    "allow",
    cls=Spelled,
    also=("--allowNonRestoredState",),
    is_flag=True,
    help="As with stoker run.",
)
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
    was: nothing is lost and nothing is written twice. The cluster does all this, also when this
    command is interrupted or the leading master dies.

    Example: stoker upgrade clicks jobs/clicks.py --window 60
    """
    loaded = job_file.with_spark_settings(invocation.definitions).load()
    masters = find_masters(invocation)
    if masters is None:
        raise Unavailable("no cluster is named or running, so there is no job to upgrade")
    client = connect_patiently(masters, invocation)
    job_id = job_named(client, job)
    replacing = Replacing(
        directory=absolute_location(directory),
        window_seconds=window,
        allow_non_restored_state=allow,
    )
    trigger_id = client.begin_upgrade(
        job_id, loaded.graph, loaded.files_by_hash, replacing=replacing
    )
    return follow(client, job_id, trigger_id, invocation)
