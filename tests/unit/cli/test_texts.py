"""What people read: progress, durations, tables, endings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.rest_cluster import FAILED, RUNNING, job_details
from stoker.cli.display import PlainDisplay
from stoker.cli.ending import LONGEST_TRACE, ending_text, failure_text
from stoker.cli.words import duration_text, table_text
from stoker.client.progress import view_of
from stoker.core.ids import AttemptId, RegionId
from stoker.core.results import AttemptDetails, Failure, FailureRecord, Progress, RegionDetails
from stoker.core.states import ExecutionState, JobStatus


def region(
    state: ExecutionState, progress: Progress | None = None, *, streaming: bool = False, number=0
) -> RegionDetails:
    attempt = AttemptDetails(
        attempt=AttemptId("a"), number=number, state=state, progress=progress or Progress()
    )
    return RegionDetails(id=RegionId("r"), vertices=("r",), streaming=streaming, current=attempt)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0.0 s"),
        (840, "0.8 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min 00 s"),
        (185_000, "3 min 05 s"),
        (7_620_000, "2 h 07 min"),
        (273_600_000, "3 d 04 h"),
    ],
)
def test_durations_are_told_in_two_units(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_columns_stand_below_each_other() -> None:
    assert table_text(("A", "B"), [("long", "x"), ("s", "y")]) == "A     B\nlong  x\ns     y"


def test_a_batch_region_counts_its_tasks() -> None:
    view = view_of(region(ExecutionState.RUNNING, Progress(tasks_total=8, tasks_done=2)))
    assert (view.words, view.share) == ("2/8 tasks", 0.25)


def test_a_stream_tells_batch_and_speed_and_has_no_share() -> None:
    progress = Progress(batch_id=7, batches=8, rows_per_second=1234.4)
    view = view_of(region(ExecutionState.RUNNING, progress, streaming=True))
    assert (view.words, view.share) == ("batch 7, 1,234 rows/s", None)


def test_a_later_attempt_is_told() -> None:
    assert view_of(region(ExecutionState.SCHEDULED, number=1)).words == (
        "waiting for a slot, attempt 2"
    )


@given(
    state=st.sampled_from(ExecutionState),
    total=st.integers(0, 9),
    done=st.integers(0, 12),
    streaming=st.booleans(),
)
def test_every_region_has_words_and_a_share_within_bounds(
    state: ExecutionState, total: int, done: int, streaming: bool
) -> None:
    progress = Progress(tasks_total=total, tasks_done=done)
    view = view_of(region(state, progress, streaming=streaming))
    assert view.words
    assert view.share is None or 0 <= view.share <= 1


def test_plain_output_tells_each_change_once() -> None:
    lines: list[str] = []
    display = PlainDisplay(lines.append)
    running = job_details(RUNNING, JobStatus.RUNNING, ExecutionState.RUNNING)
    display.show(running)
    count = len(lines)
    display.show(running)
    assert len(lines) == count == 3
    display.show(job_details(RUNNING, JobStatus.FINISHED, ExecutionState.FINISHED))
    assert lines[-1] == "orders-per-hour is FINISHED after 0.1 s"


def test_the_end_of_a_failed_job_names_region_attempt_and_place() -> None:
    text = ending_text(job_details(FAILED, JobStatus.FAILED, ExecutionState.FAILED))
    assert text.splitlines()[0] == f"Job {FAILED} (orders-per-hour) FAILED after 0.1 s."
    assert "Failure in region big (attempt 3 on task-executor-0badcafe):" in text


def test_a_stack_trace_is_shown_but_not_without_end() -> None:
    trace = "\n".join(f"line {number}" for number in range(LONGEST_TRACE + 5))
    record = FailureRecord(
        failure=Failure(error="ValueError", message="bad", stack_trace=trace), at=0
    )
    text = failure_text(record)
    assert text.startswith("Failure of the job:\nValueError: bad\n\nline 0\n")
    assert "… 5 more lines" in text
