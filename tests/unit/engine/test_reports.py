"""What a child process says about a task is checked and cut to size."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.checkpoints import BatchFigures
from stoker.core.results import Failure, Progress, ProgressPart
from stoker.core.states import ExecutionState
from stoker.engine.protocol import (
    Ended,
    Malformed,
    NotReady,
    ProgressReport,
    SessionEnded,
    SessionNotEnded,
    StateReport,
)
from stoker.engine.reports import LONGEST_TEXT, checked

long = st.integers(0, 100_000).map("x".__mul__)
few = st.integers(0, 2_000)


@st.composite
def failures(draw: st.DrawFn) -> Failure:
    labels = {f"{number}{'k' * 500}": draw(long) for number in range(draw(st.integers(0, 30)))}
    return Failure(error=draw(long), message=draw(long), stack_trace=draw(long) * 5, labels=labels)


@st.composite
def progresses(draw: st.DrawFn) -> Progress:
    text = draw(long)
    part = ProgressPart(id=text, name=text, kind=text, state=text)
    batch = BatchFigures(batch_id=1, watermark=text, offsets={text: text}, phases={text: 1})
    return Progress(
        query_id=text,
        run_id=text,
        spark_ui=text,
        parts=(part,) * draw(few),
        recent_batches=(batch,) * draw(few),
    )


@given(failure=failures(), progress=progresses())
def test_every_report_fits_into_a_message_to_the_job_master(
    failure: Failure, progress: Progress
) -> None:
    for report in (
        Ended(state=ExecutionState.FAILED, failure=failure, progress=progress),
        ProgressReport(progress=progress),
        NotReady(reason=failure.message),
        SessionNotEnded(session_id="session", reason=failure.message),
    ):
        assert len(msgspec.msgpack.encode(checked(report))) < 2_000_000


def test_an_ordinary_report_passes_unchanged() -> None:
    failure = Failure(error="ValueError", message="no", stack_trace="here", labels={"a": "b"})
    progress = Progress(
        tasks_total=3,
        run_id="run",
        parts=(ProgressPart(id="1", name="n", kind="spark-job", state="RUNNING"),),
        recent_batches=(BatchFigures(batch_id=1, phases={"addBatch": 3}, offsets={"s": "1"}),),
    )
    for report in (
        StateReport(state=ExecutionState.RUNNING),
        ProgressReport(progress=progress),
        Ended(state=ExecutionState.FAILED, failure=failure, progress=progress),
        SessionEnded(session_id="s", workers="0a1b2c3d-0a1b-4a1b-8a1b-0a1b2c3d4e5f"),
    ):
        assert checked(report) == report


def test_text_that_is_cut_says_so() -> None:
    ended = checked(
        Ended(state=ExecutionState.FAILED, failure=Failure(error="E", message="x" * 30_000))
    )
    assert isinstance(ended, Ended)
    assert ended.failure is not None
    assert len(ended.failure.message) == LONGEST_TEXT
    assert ended.failure.message.endswith(" …")


@pytest.mark.parametrize("state", sorted(set(ExecutionState) - {"INITIALIZING", "RUNNING"}))
def test_a_child_cannot_report_a_state_that_is_not_its_own_to_tell(state: ExecutionState) -> None:
    assert isinstance(checked(StateReport(state=state)), Malformed)


@pytest.mark.parametrize("state", sorted(set(ExecutionState) - {"FINISHED", "FAILED", "CANCELED"}))
def test_a_task_ends_in_a_terminal_state_only(state: ExecutionState) -> None:
    assert isinstance(checked(Ended(state=state)), Malformed)


@pytest.mark.parametrize("mark", ["x", "a" * 37, "0a1b\n", "PATH=/"])
def test_a_mark_of_workers_is_an_id(mark: str) -> None:
    """All processes with this mark in their environment are killed."""
    assert isinstance(checked(SessionEnded(session_id="s", workers=mark)), Malformed)
