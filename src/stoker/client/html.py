"""A job as a notebook shows it."""

from html import escape

from stoker.client.progress import RegionView, views_of
from stoker.core.results import JobDetails
from stoker.core.states import ExecutionState, JobStatus

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
        # White on a colour can be read on a light page and on a dark one.
        f'<span style="background:{colour};color:#fff;border-radius:.6em;padding:0 .5em">'
        f"{details.status}</span>"
    )
    rows = "".join(_row(view) for view in views_of(details))
    table = f"<table>{rows}</table>" if rows else ""
    return f"<div>{head}{_aside(details.waiting)}{table}{_cause(details)}</div>"


def _row(view: RegionView) -> str:
    known = view.share is not None and view.state is not ExecutionState.FAILED
    bar = f'<progress value="{view.share:.3f}" max="1"></progress>' if known else ""
    cells = (escape(view.name), str(view.state), bar, escape(view.words))
    style = "text-align:left;padding:.1em .8em .1em 0"
    return "<tr>" + "".join(f'<td style="{style}">{cell}</td>' for cell in cells) + "</tr>"


def _aside(words: str | None) -> str:
    return f"<div><i>waits: {escape(words)}</i></div>" if words else ""


def _cause(details: JobDetails) -> str:
    if details.status is not JobStatus.FAILED or not details.failures:
        return ""
    failure = details.failures[0].failure
    text = f"{escape(failure.error)}: {escape(failure.message)}"
    return f'<pre style="white-space:pre-wrap">{text}</pre>'
