"""How far each region of a job is: as a share, in words, and as HTML for a notebook."""

from dataclasses import dataclass
from html import escape

from stoker.core.headlines import headline_of
from stoker.core.results import (
    AttemptDetails,
    JobDetails,
    Progress,
    ProgressPart,
    RegionDetails,
)
from stoker.core.states import ExecutionState, JobStatus

_WORDS = {
    ExecutionState.CREATED: "waiting",
    ExecutionState.SCHEDULED: "waiting for a slot",
    ExecutionState.DEPLOYING: "on its way to a task executor",
    ExecutionState.INITIALIZING: "preparing",
    ExecutionState.RUNNING: "running",
    ExecutionState.FINISHED: "done",
    ExecutionState.CANCELING: "being cancelled",
    ExecutionState.CANCELED: "cancelled",
    ExecutionState.FAILED: "failed",
    ExecutionState.RECONCILING: "being found again after a change of leader",
}


@dataclass(frozen=True, kw_only=True)
class RegionView:
    name: str
    state: ExecutionState
    share: float | None
    """From 0 to 1; None when it cannot be known, as for an endless stream."""
    words: str


def view_of(region: RegionDetails) -> RegionView:
    attempt = region.current
    facts = [_state_words(region, attempt), *_progress_words(region, attempt)]
    if attempt.number > 0:
        facts.append(f"attempt {attempt.number + 1}")
    return RegionView(
        name=region.id,
        state=attempt.state,
        share=_share(region, attempt),
        words=", ".join(fact for fact in facts if fact),
    )


def views_of(details: JobDetails) -> list[RegionView]:
    return [view_of(region) for region in details.regions]


def part_words(part: ProgressPart) -> str:
    """How far a Spark job or a streaming query of a program is."""
    words = [f"batch {part.batch_id}"] if part.batch_id is not None else []
    if part.tasks_total:
        words.append(f"{part.tasks_done}/{part.tasks_total} tasks")
    if part.rows_per_second is not None:
        words.append(f"{part.rows_per_second:,.0f} rows/s")
    return ", ".join(words)


_BEGUN = (ExecutionState.RUNNING, ExecutionState.FINISHED)


def have_streams_begun(details: JobDetails) -> bool:
    """Whether the job can be stopped with a savepoint by now, as far as this depends on time."""
    streams = [region for region in details.regions if region.streaming]
    return bool(details.regions) and all(region.current.state in _BEGUN for region in streams)


def is_at_work(details: JobDetails) -> bool:
    """Whether Spark works for every task: what fails at once has failed before that."""
    return bool(details.regions) and all(
        attempt.state is ExecutionState.FINISHED
        or (attempt.state is ExecutionState.RUNNING and _shows_work(attempt.progress))
        for attempt in (region.current for region in details.regions)
    )


def _shows_work(progress: Progress) -> bool:
    counts = (progress.tasks_total, progress.batches, progress.rows_read, progress.rows_written)
    has_query = progress.query_id is not None or progress.batch_id is not None
    return has_query or any(counts) or bool(progress.parts)


def _state_words(region: RegionDetails, attempt: AttemptDetails) -> str:
    progress = attempt.progress
    has_count = progress.batch_id is not None if region.streaming else progress.tasks_total > 0
    # The count already shows that the region is running.
    return "" if attempt.state is ExecutionState.RUNNING and has_count else _WORDS[attempt.state]


def _progress_words(region: RegionDetails, attempt: AttemptDetails) -> list[str]:
    return _stream_words(attempt) if region.streaming else _batch_words(attempt)


def _stream_words(attempt: AttemptDetails) -> list[str]:
    progress = attempt.progress
    words = [f"batch {progress.batch_id}"] if progress.batch_id is not None else []
    if progress.rows_per_second is not None and not attempt.state.terminal:
        words.append(f"{progress.rows_per_second:,.0f} rows/s")
    if progress.rows_read:
        words.append(f"{_rows(progress.rows_read)} read")
    return words


def _batch_words(attempt: AttemptDetails) -> list[str]:
    progress = attempt.progress
    words = []
    # Spark skips tasks that turn out to be unnecessary, so a final count would mislead.
    if progress.tasks_total and not attempt.state.terminal:
        words.append(f"{progress.tasks_done}/{progress.tasks_total} tasks")
    if progress.rows_written:
        words.append(f"{_rows(progress.rows_written)} written")
    return words


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _share(region: RegionDetails, attempt: AttemptDetails) -> float | None:
    if attempt.state is ExecutionState.FINISHED:
        return 1.0
    progress = attempt.progress
    if attempt.state is not ExecutionState.RUNNING:
        return 0.0
    if region.streaming or not progress.tasks_total:
        return None
    return min(1.0, progress.tasks_done / progress.tasks_total)


_COLOURS = {
    JobStatus.FINISHED: "#2e7d32",
    JobStatus.FAILED: "#c62828",
    JobStatus.CANCELED: "#757575",
}
_OTHER_COLOUR = "#1565c0"


def job_html(details: JobDetails) -> str:
    """Names and messages that come from users are escaped."""
    colour = _COLOURS.get(details.status, _OTHER_COLOUR)
    head = (
        f"<b>{escape(details.name)}</b> <code>{escape(details.job_id[:12])}</code> "
        # White on a colour is readable on light and on dark pages.
        f'<span style="background:{colour};color:#fff;border-radius:.6em;padding:0 .5em">'
        f"{details.status}</span>"
    )
    rows = "".join(_row_html(view) for view in views_of(details))
    table = f"<table>{rows}</table>" if rows else ""
    return f"<div>{head}{_waiting_html(details.waiting)}{table}{_failure_html(details)}</div>"


def _row_html(view: RegionView) -> str:
    known = view.share is not None and view.state is not ExecutionState.FAILED
    bar = f'<progress value="{view.share:.3f}" max="1"></progress>' if known else ""
    cells = (escape(view.name), str(view.state), bar, escape(view.words))
    style = "text-align:left;padding:.1em .8em .1em 0"
    return "<tr>" + "".join(f'<td style="{style}">{cell}</td>' for cell in cells) + "</tr>"


def _waiting_html(reason: str | None) -> str:
    return f"<div><i>waits: {escape(reason)}</i></div>" if reason else ""


def _failure_html(details: JobDetails) -> str:
    if details.status is not JobStatus.FAILED or not details.failures:
        return ""
    failure = details.failures[0].failure
    text = escape(headline_of(failure) + (f"\n  in {failure.place}" if failure.place else ""))
    return f'<pre style="white-space:pre-wrap">{text}</pre>'
