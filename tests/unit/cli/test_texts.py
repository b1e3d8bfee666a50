"""Texts for people: progress, durations, tables, and the ends of jobs."""

import io
import sys

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.cli.display import PlainDisplay, failure_text, job_end_text
from stoker.cli.output import colour_states, duration_text, fit_widths, stdout_table, table_text
from stoker.cli.savepoint_texts import left_state_text, savepoints_text
from stoker.client.progress import view_of
from stoker.core.checkpoints import (
    CheckpointEntry,
    CheckpointKind,
    Checkpoints,
    CheckpointStatus,
    SavepointSummary,
)
from stoker.core.graph import JobType
from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.results import (
    AttemptDetails,
    Failure,
    FailureRecord,
    JobDetails,
    Progress,
    RegionDetails,
)
from stoker.core.states import ExecutionState, JobStatus
from stoker.testing.sample_jobs import FAILED, RUNNING, job_details


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
def test_durations_have_at_most_two_units(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_columns_are_aligned() -> None:
    assert table_text(("A", "B"), [("long", "x"), ("s", "y")]) == "A     B\nlong  x\ns     y"


ROWS = [("1", "a-rather-long-name", "FAILED"), ("2", "short", "FINISHED"), ("3", "FAILED", "x")]


def test_at_a_terminal_only_names_are_cut() -> None:
    text = table_text(("ID", "NAME", "STATE"), ROWS, shorten=(1,), width=24)
    assert text.splitlines() == [
        "ID  NAME        STATE",
        "1   a-rather-…  FAILED",
        "2   short       FINISHED",
        "3   FAILED      x",
    ]


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
    st.integers(0, 200),
)
def test_columns_are_cut_only_as_far_as_the_width_requires(
    widths: list[int], shorten: set[int], available: int
) -> None:
    cut = {column for column in shorten if column < len(widths)}
    found = fit_widths(widths, cut, available)
    for column, (before, after) in enumerate(zip(widths, found, strict=True)):
        assert after == before if column not in cut else min(before, 8) <= after <= before
    assert sum(found) <= available or all(found[column] <= 8 for column in cut)
    assert found == list(widths) or sum(found) >= min(available, sum(widths))


def test_states_have_colours_at_a_terminal() -> None:
    lines = colour_states(table_text(("ID", "NAME", "STATE"), ROWS)).splitlines()
    assert click.style("FAILED", fg="red") in lines[1]
    assert click.style("FINISHED", fg="green") in lines[2]
    assert [click.unstyle(line) for line in lines] == table_text(
        ("ID", "NAME", "STATE"), ROWS
    ).splitlines()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("variable", "has_colours"), [(None, True), ("1", False)])
def test_colours_appear_at_a_terminal_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, has_colours: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    head = ("ID", "NAME", "STATE")
    assert "\x1b" not in stdout_table(head, ROWS)
    if variable is not None:
        monkeypatch.setenv("NO_COLOR", variable)
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setattr(sys, "stdout", _Terminal())
    text = stdout_table(head, ROWS, shorten=(1,))
    assert ("\x1b" in text) is has_colours
    assert "a-rather-…" in text


def test_a_batch_region_counts_its_tasks() -> None:
    view = view_of(region(ExecutionState.RUNNING, Progress(tasks_total=8, tasks_done=2)))
    assert (view.words, view.share) == ("2/8 tasks", 0.25)


def test_a_stream_shows_batch_and_rate_and_has_no_share() -> None:
    progress = Progress(batch_id=7, batches=8, rows_per_second=1234.4)
    view = view_of(region(ExecutionState.RUNNING, progress, streaming=True))
    assert (view.words, view.share) == ("batch 7, 1,234 rows/s", None)


def test_a_later_attempt_is_numbered() -> None:
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


def test_plain_output_prints_each_change_once() -> None:
    lines: list[str] = []
    display = PlainDisplay(lines.append)
    running = job_details(RUNNING, JobStatus.RUNNING, ExecutionState.RUNNING)
    display.show(running)
    count = len(lines)
    display.show(running)
    assert len(lines) == count == 3
    display.show(job_details(RUNNING, JobStatus.FINISHED, ExecutionState.FINISHED))
    assert lines[-1] == "orders-per-hour is FINISHED after 0.1 s"


def failed_with(failure: Failure) -> JobDetails:
    details = job_details(FAILED, JobStatus.FAILED, ExecutionState.FAILED)
    record = msgspec.structs.replace(details.failures[0], failure=failure)
    return msgspec.structs.replace(details, failures=(record,))


def test_the_end_of_a_failed_job_tells_cause_place_and_way_to_more() -> None:
    text = job_end_text(failed_with(RECORD.failure))
    assert text.splitlines() == [
        f"Job {FAILED} (orders-per-hour) FAILED after 0.1 s.",
        "",
        "E: bad",
        "  in transform 'adults', jobs/people.py line 9",
        f"  (more: stoker status {FAILED[:12]} --trace)",
    ]


def test_with_trace_the_end_names_region_attempt_and_executor() -> None:
    details = job_details(FAILED, JobStatus.FAILED, ExecutionState.FAILED)
    text = job_end_text(details, trace=True)
    assert "  region big, attempt 3, on task-executor-0badcafe\n" in text
    assert details.failures[0].failure.stack_trace.strip() in text


def test_a_temporary_cluster_is_not_offered_for_questions() -> None:
    text = job_end_text(failed_with(RECORD.failure), temporary=True)
    assert text.endswith("  (more: run it with --trace)")


RECORD = FailureRecord(
    failure=Failure(
        error="PythonException",
        message="An exception was thrown.\nTraceback (most recent call last):\n  File x\nE: bad\n",
        stack_trace="In a Spark worker (most recent call first):\n  File x",
        place="transform 'adults', jobs/people.py line 9",
    ),
    at=0,
)


def test_a_failure_is_told_once_with_its_place() -> None:
    assert failure_text(RECORD, "--trace").splitlines() == [
        "E: bad",
        "  in transform 'adults', jobs/people.py line 9",
        "  (more: --trace)",
    ]
    whole = failure_text(RECORD, "--trace", trace=True)
    assert whole.count("An exception was thrown.") == 1
    assert "  File x" in whole


def test_nothing_more_is_offered_when_there_is_nothing_more() -> None:
    record = FailureRecord(failure=Failure(error="ValueError", message="bad"), at=0)
    assert failure_text(record, "--trace") == "ValueError: bad"


def test_what_the_program_has_printed_is_not_told_again() -> None:
    details = job_details(FAILED, JobStatus.FAILED, ExecutionState.FAILED)
    cause = failure_text(details.failures[0], "").splitlines()[0]
    text = job_end_text(details, already_told=f"Traceback …\n{cause}\n")
    assert text == f"Job {FAILED} (orders-per-hour) FAILED after 0.1 s."


def test_one_row_is_one_row() -> None:
    view = view_of(region(ExecutionState.FINISHED, Progress(rows_written=1)))
    assert view.words == "done, 1 row written"


def test_a_failed_region_is_called_failed_once() -> None:
    lines: list[str] = []
    PlainDisplay(lines.append).show(job_details(FAILED, JobStatus.FAILED, ExecutionState.FAILED))
    assert not [line for line in lines if "failed (failed)" in line]


def test_a_path_that_does_not_fit_keeps_its_end() -> None:
    rows = [("1", "/data/savepoints/of/orders/savepoint-4f1c")]
    text = table_text(("ID", "PATH"), rows, ends=(1,), width=20)
    assert text.splitlines() == ["ID  PATH", "1   …/savepoint-4f1c"]


def saved(path: str, damage: str = "") -> SavepointSummary:
    return SavepointSummary(
        path=path,
        job_id=JobId("4f1c" * 8),
        job_name="clicks of all shops in all countries, by five minutes",
        created_at=1_790_000_000_000,
        kind="savepoint",
        size_bytes=123_456,
        damage=damage or None,
    )


@pytest.mark.parametrize("damage", ["", "its manifest cannot be read: it ends in the middle"])
def test_savepoints_fit_the_terminal_and_are_printed_in_full_elsewhere(
    damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/mnt/storage/savepoints/of/the/whole/department/savepoint-4f1c4f-9d0e"
    listed = [saved(path), saved(path.replace("9d0e", "9d0f"), damage)]
    assert path in savepoints_text(listed)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdout", _Terminal())
    lines = savepoints_text(listed).splitlines()
    assert max(map(len, lines)) <= 100
    assert "9d0e" in lines[1]
    assert "9d0f" in lines[2]


def ended_stream(status: JobStatus, retained: str | None) -> JobDetails:
    kept = CheckpointEntry(
        id=0,
        kind=CheckpointKind.CHECKPOINT,
        status=CheckpointStatus.COMPLETED,
        at=1,
        path=retained,
    )
    details = job_details(RUNNING, status, ExecutionState.CANCELED)
    return msgspec.structs.replace(
        details,
        job_type=JobType.STREAMING,
        checkpoints=Checkpoints(retained=kept if retained else None),
    )


def test_the_end_of_a_stream_names_what_is_kept_of_it_or_says_what_is_given_up() -> None:
    kept = left_state_text(ended_stream(JobStatus.CANCELED, "/kept/checkpoint-1"))
    assert kept is not None
    assert "stoker run -s /kept/checkpoint-1 FILE" in kept
    ended = ended_stream(JobStatus.CANCELED, None)
    assert left_state_text(ended) is None, "it has written nothing"
    counts = msgspec.structs.replace(ended.checkpoints.counts, completed=3)
    checkpoints = msgspec.structs.replace(ended.checkpoints, counts=counts)
    lost = left_state_text(msgspec.structs.replace(ended, checkpoints=checkpoints))
    assert lost is not None
    assert "a new run cannot continue where it ended" in lost
    assert "remove them first, or name another directory" in lost
    assert "stoker stop" in lost
    assert left_state_text(ended_stream(JobStatus.FINISHED, None)) is None
    batch = job_details(RUNNING, JobStatus.CANCELED, ExecutionState.CANCELED)
    assert left_state_text(batch) is None
