"""`stoker rows`: what the queries of a SQL script returned."""

from pathlib import Path

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.job_argument import find_job, job_argument
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.options.job import output_option
from stoker.cli.output import echo_json
from stoker.client.operations import all_rows


@click.command()
@job_argument
@click.option(
    "--query", metavar="N", type=click.IntRange(min=1), help="Only this query of the script."
)
@output_option
@shared_options
def rows(invocation: Invocation, job: str, query: int | None, output: Path | None) -> int:
    """Print the rows that the queries of a SQL script returned.

    JOB is an id, the beginning of one, or a name. The rows are kept as long as the job is listed.

    Example: stoker rows top-products --output top.csv
    """
    # Imported late: few commands show rows.
    from stoker.cli.rows import plain_value, print_queries, unique_names, write_rows  # noqa: PLC0415

    with connect(invocation) as client:
        job_id = find_job(client, job)
        if output is None and not invocation.json:
            print_queries(client, job_id, only=query)
            return OK
        found = client.run(all_rows(job_id, query))
        if output is not None:
            write_rows(found, output)
        else:
            names = unique_names(found.names)
            echo_json([dict(zip(names, map(plain_value, row), strict=True)) for row in found])
    return OK
