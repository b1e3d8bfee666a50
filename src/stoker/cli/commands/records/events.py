"""`stoker events`: what happened in the cluster."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import click

from stoker.api.events import EventAnswer, EventGapAnswer, EventsAnswer
from stoker.cli.connection import connect
from stoker.cli.exit_codes import OK
from stoker.cli.job_argument import find_job
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json, echo_json_line, moment_text
from stoker.client.blocking import BlockingClient
from stoker.client.calls import EventFilter
from stoker.client.operations import newest_events, next_events
from stoker.core.durations import read_duration
from stoker.core.values import Millis
from stoker.events.event import START, EventId, EventKind

_KIND_WIDTH = max(map(len, EventKind))
_SHORT_ID = 12


def _read_moment(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Millis | None:
    """A time ago (`2 h`), or a date with or without a time, in the zone of this machine."""
    if text is None:
        return None
    try:
        return round((time.time() - read_duration(text).total_seconds()) * 1000)
    except ValueError:
        pass
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"'{text}' is no time; write how long ago it is (30 min, 2 h), or a date "
            "(2026-11-20, 2026-11-20T08:30)"
        ) from None


@click.command()
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value for kind in EventKind]),
    metavar="KIND",
    help="Only events of this kind, such as job-failed; may be repeated.",
)
@click.option("--job", help="Only events of this job: an id, the beginning of one, or a name.")
@click.option("--owner", help="Only events of the jobs of this owner.")
@click.option("--since", callback=_read_moment, help="Only events from then on: 2 h, or a date.")
@click.option("--until", callback=_read_moment, help="Only events before then: 2 h, or a date.")
@click.option("--lines", default=50, show_default=True, type=click.IntRange(0, 100_000))
@click.option("-f", "--follow", is_flag=True, help="Keep printing what happens.")
@shared_options
def events(
    invocation: Invocation,
    kinds: tuple[str, ...],
    job: str | None,
    owner: str | None,
    since: Millis | None,
    until: Millis | None,
    lines: int,
    follow: bool,
) -> int:
    """Show what happened in the cluster, the newest event last.

    The log is durable: it tells of every job, of savepoints, upgrades, task executors, leaders,
    tokens and configuration, also from before the last change of the leader. With --json and
    --follow, each event is printed as a line of JSON.

    Example: stoker events --job nightly-load --since "2 h"
    """
    with connect(invocation) as client:
        wanted = EventFilter(
            kinds=kinds,
            job=None if job is None else find_job(client, job),
            owner=owner,
            since=since,
            until=until,
        )
        # Asked first: what comes after it is followed, and is no part of the pages.
        newest = client.events(EventFilter(), limit=1).last or str(START)
        pages = client.run(newest_events(wanted, lines))
        found = [entry for page in reversed(pages) for entry in _oldest_first(page)]
        if follow:
            found = [entry for entry in found if _is_up_to(entry, newest)]
        if invocation.json and not follow:
            echo_json([entry for entry in found if isinstance(entry, EventAnswer)])
            return OK
        for entry in found:
            _show(entry, json=invocation.json)
        if follow:
            _follow(client, replace(wanted, after=newest), json=invocation.json)
        elif not found:
            click.echo("No events.")
    return OK


def _follow(client: BlockingClient, wanted: EventFilter, *, json: bool) -> None:
    while True:
        page = client.run(next_events(wanted))
        for entry in _oldest_first(page):
            _show(entry, json=json)
        wanted = replace(wanted, after=page.next or page.last or wanted.after)


def _position(entry: EventAnswer | EventGapAnswer) -> EventId:
    return EventId.parse(entry.id if isinstance(entry, EventAnswer) else entry.before or str(START))


def _is_up_to(entry: EventAnswer | EventGapAnswer, newest: str) -> bool:
    return _position(entry) <= EventId.parse(newest)


def _oldest_first(page: EventsAnswer) -> Iterator[EventAnswer | EventGapAnswer]:
    """The events of a page, with each gap before the event behind it."""
    entries: list[EventAnswer | EventGapAnswer] = [*page.gaps, *page.events]
    yield from sorted(entries, key=lambda each: (_position(each), isinstance(each, EventAnswer)))


def _show(entry: EventAnswer | EventGapAnswer, *, json: bool) -> None:
    if json:
        echo_json_line(entry)
    else:
        click.echo(_line(entry) if isinstance(entry, EventAnswer) else _gap_line(entry))


def _line(event: EventAnswer) -> str:
    job = f"{event.job_name or '?'} ({event.job[:_SHORT_ID]}): " if event.job else ""
    text = f"{moment_text(event.time)}  {event.kind:<{_KIND_WIDTH}}  {job}{event.text}"
    # Names and failures come from users; a terminal must not obey them.
    return "".join(letter if letter.isprintable() else "�" for letter in text)


_GAP_REASONS = {
    "dropped": "could not be written in time",
    "forgotten": "were removed by age, count or size",
    "unreadable": "are in a file that is missing or damaged",
}


def _gap_line(gap: EventGapAnswer) -> str:
    reason = _GAP_REASONS.get(gap.reason, gap.reason)
    if gap.missing is None:
        return f"… events up to {gap.before} {reason}"
    events = "1 event" if gap.missing == 1 else f"{gap.missing} events"
    return f"… {events} up to {gap.before} {reason}"
