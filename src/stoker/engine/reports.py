"""What a child process says about a task, checked before the task executor uses it. Pure.

A runner or driver shares its process with the code of a job, which can write anything to the
socket. So a report must not be able to harm the task executor, its neighbours or the next job:

- A state must be one that a child may report.
- Text and lists are cut to a size that every later message, record and page can carry. A report
  that is too large for a message to the job master could never be delivered, and the task executor
  would repeat it for ever.

A report may still be a lie about its own job. That harms nobody else.
"""

import re
from collections.abc import Mapping

import msgspec

from stoker.core.checkpoints import BatchFigures
from stoker.core.results import Failure, Progress, ProgressPart
from stoker.core.states import ExecutionState
from stoker.engine.protocol import (
    Ended,
    FromRunner,
    Malformed,
    NotReady,
    ProgressReport,
    SessionEnded,
    SessionNotEnded,
    StateReport,
)

LONGEST_NAME = 200
LONGEST_TEXT = 20_000
LONGEST_TRACE = 200_000
LONGEST_OFFSET = 2_000
MOST_LABELS = 20
MOST_PARTS = 200
MOST_BATCHES = 100
_REPORTED = frozenset({ExecutionState.INITIALIZING, ExecutionState.RUNNING})
_ENDS = frozenset({ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED})
_MARK = re.compile(r"[0-9a-f-]{0,36}")


def checked(message: FromRunner) -> FromRunner | Malformed:
    match message:
        case StateReport(state=state) if state not in _REPORTED:
            return Malformed(reason=f"{state} is not a state that a child reports")
        case Ended(state=state) if state not in _ENDS:
            return Malformed(reason=f"{state} is not the end of a task")
        case Ended(failure=failure, progress=progress):
            return msgspec.structs.replace(
                message,
                failure=None if failure is None else _failure(failure),
                progress=_progress(progress),
            )
        case ProgressReport(progress=progress):
            return ProgressReport(progress=_progress(progress))
        case NotReady(reason=reason):
            return NotReady(reason=_cut(reason, LONGEST_TEXT))
        case SessionEnded(workers=workers) if not _MARK.fullmatch(workers):
            return Malformed(reason="the mark of the session's workers is not an id")
        case SessionNotEnded(reason=reason):
            return msgspec.structs.replace(message, reason=_cut(reason, LONGEST_TEXT))
        case _:
            return message


def _failure(failure: Failure) -> Failure:
    return msgspec.structs.replace(
        failure,
        error=_cut(failure.error, LONGEST_NAME),
        message=_cut(failure.message, LONGEST_TEXT),
        stack_trace=_cut(failure.stack_trace, LONGEST_TRACE),
        labels=_labels(failure.labels),
    )


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    kept = list(labels.items())[:MOST_LABELS]
    return {_cut(key, LONGEST_NAME): _cut(value, LONGEST_NAME) for key, value in kept}


def _progress(progress: Progress) -> Progress:
    return msgspec.structs.replace(
        progress,
        query_id=_cut_or_none(progress.query_id),
        run_id=_cut_or_none(progress.run_id),
        spark_ui=_cut_or_none(progress.spark_ui),
        parts=tuple(map(_part, progress.parts[-MOST_PARTS:])),
        recent_batches=tuple(map(_batch, progress.recent_batches[-MOST_BATCHES:])),
    )


def _part(part: ProgressPart) -> ProgressPart:
    return msgspec.structs.replace(
        part,
        id=_cut(part.id, LONGEST_NAME),
        name=_cut(part.name, LONGEST_NAME),
        kind=_cut(part.kind, LONGEST_NAME),
        state=_cut(part.state, LONGEST_NAME),
    )


def _batch(batch: BatchFigures) -> BatchFigures:
    phases, offsets = list(batch.phases.items()), list(batch.offsets.items())
    return msgspec.structs.replace(
        batch,
        phases={_cut(name, LONGEST_NAME): value for name, value in phases[:MOST_LABELS]},
        watermark=_cut_or_none(batch.watermark),
        offsets={
            _cut(name, LONGEST_OFFSET): _cut(value, LONGEST_OFFSET)
            for name, value in offsets[:MOST_LABELS]
        },
    )


def failure_of_malformed(malformed: Malformed) -> Failure:
    return Failure(
        error="MalformedReport",
        message="the process that ran the task's code sent something that is not a report of the "
        f"task ({malformed.reason}); the code must not write to file descriptors that it has not "
        "opened",
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 2]} …"


def _cut_or_none(text: str | None) -> str | None:
    return None if text is None else _cut(text, LONGEST_NAME)
