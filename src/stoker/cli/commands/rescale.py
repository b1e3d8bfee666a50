"""`stoker rescale`: give a running job another number of state partitions."""

import click

from stoker.cli.connection import connect_patiently, find_masters
from stoker.cli.follow import follow_replacement
from stoker.cli.job_argument import find_job, job_argument
from stoker.cli.options.flink import AliasedOption
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import absolute_location
from stoker.client.calls import ReplacementSettings
from stoker.core.errors import Unavailable


@click.command()
@job_argument
@click.argument("partitions", type=click.IntRange(min=1))
@click.option(
    "--savepoint-path",
    "directory",
    cls=AliasedOption,
    aliases=("--savepointPath",),
    metavar="DIR",
    help="Directory or URL for the savepoints. Else that of "
    "execution.checkpointing.savepoint-dir, which a local cluster sets.",
)
@click.option(
    "--window",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="How long the rescaled job must run without a failure.",
)
@shared_options
def rescale(
    invocation: Invocation, job: str, partitions: int, directory: str | None, window: float
) -> int:
    """Stop a streaming job with a savepoint, repartition its state, and start it from there.

    If the state cannot be repartitioned, the job continues as it was. The cluster does all this,
    even when this command is interrupted or the leading master dies. The machines of masters
    need Spark and Java for it.

    Example: stoker rescale clicks 8 --savepoint-path /savepoints
    """
    masters = find_masters(invocation)
    if masters is None:
        raise Unavailable("no cluster is named or running, so there is no job to rescale")
    client = connect_patiently(masters, invocation)
    job_id = find_job(client, job)
    settings = ReplacementSettings(directory=absolute_location(directory), window_seconds=window)
    trigger_id = client.begin_rescale(job_id, partitions, settings=settings)
    return follow_replacement(client, job_id, trigger_id, invocation)
