"""`stoker audit`: who changed what, and who was refused."""

from pathlib import Path

import click

from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, stdout_table
from stoker.core.errors import InvalidInput
from stoker.security.audit import AuditQuery, read_audit_files
from stoker.security.audit_entries import AuditEntry

_HEAD = ("TIME", "CALLER", "ADDRESS", "ACTION", "OBJECT", "OUTCOME")
_OBJECT_COLUMN = 4


@click.command()
@click.option("--lines", default=50, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--caller", help="Only entries of this caller: a token's name or a user.")
@click.option(
    "--object", "object_", help="Only entries about this job, by its id or its beginning."
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read this file instead, without a cluster; can be given several times, to merge the logs "
    "of several machines and the files of a rotated log.",
)
@shared_options
def audit(
    invocation: Invocation,
    lines: int,
    caller: str | None,
    object_: str | None,
    files: tuple[Path, ...],
) -> int:
    """Show the audit log of a master: each change and each refusal, the newest last.

    The log is that of the machine on which the master runs. A token needs the role operate.

    Example: stoker audit --caller ana
    """
    if files:
        entries = _read(files, AuditQuery(limit=lines, caller=caller, object=object_))
    else:
        with connect(invocation) as client:
            entries = client.audit(lines, caller=caller, object_=object_)
    if invocation.json:
        echo_json(entries)
    elif entries:
        has_several = len({entry.master for entry in entries}) > 1
        rows = [
            (*_row(entry), *([entry.master or "-"] if has_several else []))
            for entry in reversed(entries)
        ]
        head = (*_HEAD, *(["MASTER"] if has_several else []))
        click.echo(stdout_table(head, rows, shorten=(_OBJECT_COLUMN, _OBJECT_COLUMN + 1)))
    else:
        click.echo("No entries.")
    return OK


def _read(files: tuple[Path, ...], query: AuditQuery) -> list[AuditEntry]:
    try:
        return read_audit_files(files, query)
    except OSError as error:
        raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}") from error


def _row(entry: AuditEntry) -> tuple[str, ...]:
    outcome = f"{entry.outcome} ({entry.status})" if entry.status else entry.outcome
    return (
        entry.time,
        entry.caller or "-",
        entry.address,
        entry.action,
        entry.object or "-",
        f"{outcome}: {entry.reason}" if entry.reason else outcome,
    )
