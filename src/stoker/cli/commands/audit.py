"""`stoker audit`: who changed what, and who was refused."""

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, stdout_table
from stoker.security.audit_entries import AuditEntry

_HEAD = ("TIME", "CALLER", "ADDRESS", "ACTION", "OBJECT", "OUTCOME")
_OBJECT_COLUMN = 4


@click.command()
@click.option("--lines", default=50, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--caller", help="Only entries of this caller: a token's name or a user.")
@click.option(
    "--object", "object_", help="Only entries about this job, by its id or its beginning."
)
@shared_options
def audit(invocation: Invocation, lines: int, caller: str | None, object_: str | None) -> int:
    """Show the audit log of a master: each change and each refusal, the newest last.

    The log is that of the machine on which the master runs. A token needs the role operate.

    Example: stoker audit --caller ana
    """
    with connect(invocation) as client:
        entries = client.audit(lines, caller=caller, object_=object_)
    if invocation.json:
        echo_json(entries)
    elif entries:
        rows = [_row(entry) for entry in reversed(entries)]
        click.echo(stdout_table(_HEAD, rows, shorten=(_OBJECT_COLUMN, _OBJECT_COLUMN + 1)))
    else:
        click.echo("No entries.")
    return OK


def _row(entry: AuditEntry) -> tuple[str, ...]:
    outcome = f"{entry.outcome} ({entry.status})"
    return (
        entry.time,
        entry.caller or "-",
        entry.address,
        entry.action,
        entry.object or "-",
        f"{outcome}: {entry.reason}" if entry.reason else outcome,
    )
