"""`stoker upgrade`: replace a running job by another version, with rollback."""

import click

from stoker.cli.connection import connect_patiently, find_masters
from stoker.cli.follow import follow_replacement
from stoker.cli.job_argument import find_job, job_argument
from stoker.cli.options.flink import AliasedOption
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.options.job import (
    JobCommand,
    JobFile,
    allow_non_restored_state_option,
    job_file_options,
)
from stoker.cli.output import absolute_location
from stoker.client.calls import ReplacementSettings
from stoker.core.errors import Unavailable


@click.command(cls=JobCommand)
@job_argument
@click.option(
    "--savepoint-path",
    "directory",
    cls=AliasedOption,
    aliases=("--savepointPath",),
    metavar="DIR",
    help="Directory or URL for the savepoint. Else that of execution.checkpointing.savepoint-dir, "
    "which a local cluster sets.",
)
@click.option(
    "--window",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long the new version must run without a failure.",
)
@allow_non_restored_state_option("the new version")
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

    JOB is stopped with a savepoint, and FILE starts from it. If FILE is refused, fails, or has to
    restart within the window, it is cancelled and the old version continues from where the new
    one was: nothing is lost and nothing is written twice. The cluster does all this, even when
    this command is interrupted or the leading master dies.

    Example: stoker upgrade clicks jobs/clicks.py --window 60
    """
    loaded = job_file.with_spark_settings(invocation.definitions).load()
    masters = find_masters(invocation)
    if masters is None:
        raise Unavailable("no cluster is named or running, so there is no job to upgrade")
    client = connect_patiently(masters, invocation)
    job_id = find_job(client, job)
    settings = ReplacementSettings(
        directory=absolute_location(directory),
        window_seconds=window,
        allow_non_restored_state=allow,
    )
    trigger_id = client.begin_upgrade(job_id, loaded.graph, loaded.files_by_hash, settings=settings)
    return follow_replacement(client, job_id, trigger_id, invocation)
