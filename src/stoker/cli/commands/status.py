"""`stoker status`."""

import time

import click

from stoker.cli.connection import connect
from stoker.cli.display import failure_text
from stoker.cli.exit_codes import OK
from stoker.cli.job_argument import find_job, job_argument
from stoker.cli.logs_hint import logs_hint
from stoker.cli.options.failure import trace_option
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import duration_text, echo_json, moment_text, stdout_table
from stoker.client.progress import part_words, views_of
from stoker.core.results import JobDetails


@click.command()
@job_argument
@trace_option
@shared_options
def status(invocation: Invocation, job: str, trace: bool) -> int:
    """Show one job: its state, its regions, why it waits, why it failed.

    JOB is an id, the beginning of one, or a name.

    Example: stoker status clicks
    """
    with connect(invocation) as client:
        details = client.job(find_job(client, job))
        hint = None if invocation.json else logs_hint(client, details)
    if invocation.json:
        echo_json(details)
    else:
        click.echo(_text(details, trace=trace))
        if hint is not None:
            click.echo(hint)
    return OK


def _text(details: JobDetails, *, trace: bool) -> str:
    parts = [_head(details)]
    if details.waiting and not details.status.globally_terminal:
        parts.append(f"Waiting: {details.waiting}")
    if details.regions:
        parts.append(_regions(details))
    if details.failures:
        count = len(details.failures)
        more = f"The latest of {count} failures.\n" if count > 1 else ""
        how = f"stoker status {details.job_id[:12]} --trace"
        parts.append(more + failure_text(details.failures[0], how, trace=trace))
    return "\n\n".join(parts)


def _head(details: JobDetails) -> str:
    end = details.end if details.end is not None else round(time.time() * 1000)
    lines = [
        ("job", details.job_id),
        ("name", details.name),
        ("type", details.job_type.lower()),
        ("owner" if details.owner else "", details.owner),
        ("state", details.status.value),
        ("started", moment_text(details.start)),
        ("ended" if details.end is not None else "", moment_text(details.end or 0)),
        ("duration", duration_text(end - details.start)),
    ]
    return "\n".join(f"{name + ':':<10} {value}" for name, value in lines if name)


def _regions(details: JobDetails) -> str:
    rows = []
    for view, region in zip(views_of(details), details.regions, strict=True):
        executor = region.current.task_executor or "-"
        rows.append((view.name, view.state.value, executor, view.words))
        for part in region.current.progress.parts:
            rows.append((f"  {part.name}", part.state, executor, part_words(part)))
    head = ("REGION", "STATE", "TASK EXECUTOR", "PROGRESS")
    return stdout_table(head, rows, shorten=(0, 2, 3))
