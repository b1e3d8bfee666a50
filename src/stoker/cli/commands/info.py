"""`stoker info`."""

import click

from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.options.job import JobCommand, JobFile, job_file_options
from stoker.core.description import describe, to_json


@click.command(cls=JobCommand)
@job_file_options
@shared_options
def info(invocation: Invocation, job_file: JobFile) -> int:
    """Print the graph of a job, without running it.

    FILE is a Python pipeline, a YAML job, a SQL script, or any PySpark script. FILE.py:NAME picks
    one of several pipelines. ARGS are passed to a Python file.

    Example: stoker info jobs/orders.py --param day=2026-11-01
    """
    graph = job_file.with_spark_settings(invocation.definitions).load().graph
    if invocation.json:
        click.echo(to_json(graph, indent=2))
    else:
        click.echo(describe(graph), nl=False)
    return OK
