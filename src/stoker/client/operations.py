"""Operations that take several calls, and the methods that both clients share."""

import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from stoker.api.events import EventsAnswer
from stoker.api.operations import ReplacementState, SavepointOutcome
from stoker.client import calls
from stoker.client.answers import operation_too_late
from stoker.client.progress import have_streams_begun
from stoker.client.steps import Pause, RestCall, Step, Steps, client_settings, operation_of
from stoker.core.errors import CallTimedOut, JobFailed, SavepointFailed
from stoker.core.headlines import headline_of
from stoker.core.ids import AttemptId, JobId
from stoker.core.replacements import ReplacementPhase
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus

if TYPE_CHECKING:
    from stoker.client.rows import Rows

OPERATION_POLL_SECONDS = 0.2
BEGIN_POLL_SECONDS = 0.1
BEGIN_SECONDS = 60.0
"""How long a stop waits for a job that does not run yet."""
MOST_EVENTS_A_PAGE = 1000
PROGRESS_SECONDS = 1.0
"""Pause between requests for the progress of a job or its new output."""
_BEFORE_THE_END = tuple(status for status in JobStatus if not status.globally_terminal)


def wait(job_id: JobId, on_status: Callable[[JobStatus], None] | None = None) -> Steps[JobStatus]:
    """The final status; `on_status` gets every other status before it."""
    hold = (yield from client_settings()).hold_seconds
    if on_status is None:
        # Usually a single request, which the master answers when the job has ended.
        return (yield from _wait_until_after(job_id, _BEFORE_THE_END, hold))
    status = yield from calls.status(job_id)
    while not status.globally_terminal:
        on_status(status)
        status = yield from _wait_until_after(job_id, (status,), hold)
    return status


def _wait_until_after(job_id: JobId, known: tuple[JobStatus, ...], hold: float) -> Steps[JobStatus]:
    while (status := (yield from calls.wait_for_change(job_id, known, hold))) in known:
        pass
    return status


def watch(
    job_id: JobId, timeout: float | None, progress: Callable[[JobDetails], None] | None
) -> Steps[JobStatus]:
    """The final status; CallTimedOut if the job has not ended after `timeout` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    hold = (yield from client_settings()).hold_seconds
    known = _BEFORE_THE_END
    while True:
        if progress is not None:
            details = yield from calls.job(job_id)
            progress(details)
            if details.status.globally_terminal:
                return details.status
            hold, known = PROGRESS_SECONDS, (details.status,)
        left = hold if deadline is None else max(0.0, deadline - time.monotonic())
        status = yield from calls.wait_for_change(job_id, known, min(hold, left))
        if status.globally_terminal and progress is None:
            return status
        if deadline is not None and time.monotonic() >= deadline:
            raise CallTimedOut(f"job {job_id} is still {status} after {timeout:g} s")


def wait_until(
    job_id: JobId, is_reached: Callable[[JobDetails], bool], seconds: float
) -> Steps[JobDetails]:
    """The job as soon as `is_reached` says so, or it has ended, or the time has passed."""
    deadline = time.monotonic() + seconds
    while True:
        details = yield from calls.job(job_id)
        left = deadline - time.monotonic()
        if details.status.globally_terminal or left <= 0 or is_reached(details):
            return details
        yield Pause(min(BEGIN_POLL_SECONDS, left))


def result(job_id: JobId, timeout: float | None) -> Steps[JobDetails]:
    """Details of the job that finished; JobFailed with the cause if it ended otherwise."""
    yield from watch(job_id, timeout, None)
    details = yield from calls.job(job_id)
    match details.status:
        case JobStatus.FINISHED:
            return details
        case JobStatus.FAILED if details.failures:
            failure = details.failures[0].failure
            reason = headline_of(failure) + (f"\n  in {failure.place}" if failure.place else "")
        case status:
            reason = f"it ended as {status}"
    raise JobFailed(
        f"job {details.name} ({details.job_id}): {reason}",
        job_id=details.job_id,
        status=details.status.value,
    )


def log(job_id: JobId, stream: str, *, follow: bool) -> Generator[Step | bytes, Any, None]:
    """Yields, beside its steps, pieces of the output of the job's current attempts."""
    offsets: dict[AttemptId, int] = {}
    complete: set[AttemptId] = set()
    while True:
        details = yield from calls.job(job_id)
        for attempt in [region.current.attempt for region in details.regions]:
            while attempt and attempt not in complete:
                offset = offsets.get(attempt, 0)
                piece = yield from calls.attempt_log(job_id, attempt, stream, offset)
                offsets[attempt] = piece.next_offset
                if piece.complete:
                    complete.add(attempt)
                if not piece.data:
                    break
                yield piece.data
        if details.status.globally_terminal or not follow:
            return
        yield Pause(PROGRESS_SECONDS)


def log_text(job_id: JobId, stream: str) -> Steps[str]:
    """The present output of the job's current attempts."""
    pieces: list[bytes] = []
    steps, answer = log(job_id, stream, follow=False), None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            return b"".join(pieces).decode(errors="replace")
        answer = None
        if isinstance(step, bytes):
            pieces.append(step)
        else:
            answer = yield step


def all_rows(job_id: JobId, query: int | None = None, *, most: int | None = None) -> "Steps[Rows]":
    """The rows that a query of the job returned, by default the last one.

    `most`: stop after the piece with this many rows; the others are left out.
    """
    # Imported on use: few commands show rows.
    from stoker.client.rows import rows_of  # noqa: PLC0415

    pieces = [(yield from calls.rows(job_id, query))]
    while (offset := pieces[-1].next_offset) is not None and (most is None or offset < most):
        pieces.append((yield from calls.rows(job_id, pieces[0].query, offset)))
    return rows_of(pieces)


def result_rows(job_id: JobId, query: int | None, timeout: float | None) -> "Steps[Rows]":
    """The rows of a query, once the job has FINISHED."""
    yield from result(job_id, timeout)
    return (yield from all_rows(job_id, query))


def savepoint(job_id: JobId, directory: str | None = None, *, cancel: bool = False) -> Steps[str]:
    """Path of the finished savepoint; SavepointFailed with the cause otherwise."""
    trigger_id = yield from calls.begin_savepoint(job_id, directory, cancel=cancel)
    outcome = yield from _outcome(calls.savepoint_outcome(job_id, trigger_id))
    return outcome.location or ""


def stop(
    job_id: JobId, directory: str | None = None, *, limit_seconds: float | None = None
) -> Steps[str]:
    """End the job at batch boundaries; the path of the savepoint made at that moment.

    A job that has only just been submitted is first waited for.
    """
    yield from wait_until(job_id, have_streams_begun, BEGIN_SECONDS)
    trigger_id = yield from calls.begin_stop(job_id, directory, limit_seconds=limit_seconds)
    outcome = yield from _outcome(calls.savepoint_outcome(job_id, trigger_id))
    return outcome.location or ""


def dispose_savepoint(path: str) -> Steps[None]:
    trigger_id = yield from calls.begin_disposal(path)
    yield from _outcome(calls.disposal_outcome(trigger_id))


def checkpoint(job_id: JobId) -> Steps[int]:
    """Number of the next checkpoint, which is made with the next batch."""
    trigger_id = yield from calls.begin_checkpoint(job_id)
    outcome = yield from _outcome(calls.checkpoint_outcome(job_id, trigger_id))
    return outcome.number or 0


def newest_events(wanted: calls.EventFilter, count: int) -> Steps[list[EventsAnswer]]:
    """Pages that together hold the newest events, newest first, and at most so many."""
    pages: list[EventsAnswer] = []
    page: str | None = None
    while count > 0:
        limit = min(count, MOST_EVENTS_A_PAGE)
        answer = yield from calls.events(wanted, limit=limit, page=page)
        pages.append(answer)
        count -= len(answer.events)
        page = answer.next
        if page is None:
            break
    return pages


def next_events(wanted: calls.EventFilter) -> Steps[EventsAnswer]:
    """A page of what happens behind the event `wanted.after`, as soon as there is something."""
    while True:
        answer = yield from calls.events(wanted, limit=MOST_EVENTS_A_PAGE, oldest_first=True)
        if answer.events or answer.gaps or answer.next:
            return answer
        yield Pause(PROGRESS_SECONDS)


def _outcome(question: RestCall[SavepointOutcome]) -> Steps[SavepointOutcome]:
    options = (yield from client_settings()).options
    deadline = time.monotonic() + options.operation_timeout.total_seconds()
    while not (outcome := (yield from question)).done:
        if time.monotonic() >= deadline:
            raise operation_too_late(options)
        yield Pause(OPERATION_POLL_SECONDS)
    if outcome.failure is not None:
        raise SavepointFailed(outcome.failure)
    return outcome


def replacement(
    job_id: JobId,
    trigger_id: str,
    on_phase: Callable[[ReplacementState], None] | None = None,
) -> Steps[ReplacementState]:
    """The final state of an upgrade or a rescale; `on_phase` gets the state at each phase."""
    hold = (yield from client_settings()).hold_seconds
    phase: ReplacementPhase | None = None
    while True:
        state = yield from calls.replacement_state(job_id, trigger_id, phase, hold)
        if state.over:
            return state
        if state.phase is not phase and on_phase is not None:
            on_phase(state)
        phase = state.phase


def successor(job_id: JobId, start: RestCall[str]) -> Steps[JobId]:
    """The job that replaced the old one; JobFailed if nothing replaced it or after a rollback."""
    trigger_id = yield from start
    state = yield from replacement(job_id, trigger_id)
    if not state.failed and not state.rolled_back:
        return state.job_id
    what = f"job {state.old_job_id} was not replaced"
    if state.rolled_back:
        what += f", and its old version continues as job {state.job_id}"
    raise JobFailed(
        f"{what}: {state.reason}",
        job_id=state.job_id,
        savepoint=state.savepoint,
    )


class ClientOperations:
    """The methods of BlockingClient and AsyncClient, under the names that users call."""

    submit = operation_of(calls.submit)
    jobs = operation_of(calls.jobs)
    job = operation_of(calls.job)
    status = operation_of(calls.status)
    wait_for_change = operation_of(calls.wait_for_change)
    wait = operation_of(wait)
    result = operation_of(calls.result)
    plan = operation_of(calls.plan)
    exceptions = operation_of(calls.exceptions)
    attempt_log = operation_of(calls.attempt_log)
    rows = operation_of(calls.rows)
    wait_until = operation_of(wait_until)
    cancel = operation_of(calls.cancel)
    heartbeat = operation_of(calls.heartbeat)

    begin_savepoint = operation_of(calls.begin_savepoint)
    savepoint = operation_of(savepoint)
    begin_stop = operation_of(calls.begin_stop)
    stop = operation_of(stop)
    checkpoint = operation_of(checkpoint)
    savepoints = operation_of(calls.savepoints)
    retained_checkpoints = operation_of(calls.retained_checkpoints)
    show_savepoint = operation_of(calls.show_savepoint)
    dispose_savepoint = operation_of(dispose_savepoint)

    begin_upgrade = operation_of(calls.begin_upgrade)
    begin_rescale = operation_of(calls.begin_rescale)
    replacement = operation_of(replacement)

    quarantined = operation_of(calls.quarantined)
    retry_quarantined = operation_of(calls.retry_quarantined)
    drop_quarantined = operation_of(calls.drop_quarantined)
    events = operation_of(calls.events)
    audit = operation_of(calls.audit)
    queues = operation_of(calls.queues)
    overview = operation_of(calls.overview)
    task_executors = operation_of(calls.task_executors)
    drain = operation_of(calls.drain)
    shut_down = operation_of(calls.shut_down)
