"""A job as a notebook shows it."""

from html import escape

from stoker.client.progress import RegionView, views_of
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

_COLOURS = {
    JobStatus.FINISHED: "#2e7d32",
    JobStatus.FAILED: "#c62828",
    JobStatus.CANCELED: "#757575",
}
_OTHER_COLOUR = "#1565c0"


def job_html(details: JobDetails) -> str:
    """Everything that a user named is escaped."""
    colour = _COLOURS.get(details.status, _OTHER_COLOUR)
    head = (
        f"<b>{escape(details.name)}</b> <code>{escape(details.job_id[:12])}</code> "
        f'<span style="color:{colour}">{details.status}</span>'
    )
    rows = "".join(_row(view) for view in views_of(details))
    table = f"<table>{rows}</table>" if rows else ""
    return f"<div>{head}{_aside(details.waiting)}{table}{_cause(details)}</div>"


def _row(view: RegionView) -> str:
    bar = "" if view.share is None else f'<progress value="{view.share:.3f}" max="1"></progress>'
    cells = (escape(view.name), str(view.state), bar, escape(view.words))
    return "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"


def _aside(words: str | None) -> str:
    return f"<div><i>waits: {escape(words)}</i></div>" if words else ""


def _cause(details: JobDetails) -> str:
    if details.status is not JobStatus.FAILED or not details.failures:
        return ""
    failure = details.failures[0].failure
    return f"<pre>{escape(failure.error)}: {escape(failure.message)}</pre>"
