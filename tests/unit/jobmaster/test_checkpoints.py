"""The history of a job's checkpoints."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.checkpoints import BatchFigures, CheckpointKind, SavepointTaken
from stoker.core.ids import RegionId
from stoker.jobmaster.checkpoints import CheckpointHistory

A, B = RegionId("a"), RegionId("b")


def batch(number: int) -> BatchFigures:
    return BatchFigures(batch_id=number, at=number * 10, rows=1, duration_ms=5)


def test_every_committed_batch_counts_once_however_often_it_is_reported():
    """The latest batch comes first (CKPT-04, CKPT-19)."""
    history = CheckpointHistory([A], 10)
    history.batches_committed(A, [batch(0), batch(1)])
    history.batches_committed(A, [batch(0), batch(1), batch(2)])
    shown = history.view()
    assert (shown.counts.total, shown.counts.completed) == (3, 3)
    assert [entry.figures.batch_id for entry in shown.history if entry.figures] == [2, 1, 0]


def test_a_savepoint_is_in_progress_and_then_completed_or_failed():
    """A failed one keeps its reason (CKPT-19)."""
    history = CheckpointHistory([A], 10)
    history.savepoint_started("x", CheckpointKind.SAVEPOINT, 1)
    assert history.view().counts.in_progress == 1
    history.savepoint_completed("x", SavepointTaken(path="/s"), 2)
    history.savepoint_started("y", CheckpointKind.STOP_SAVEPOINT, 3)
    history.savepoint_failed("y", "no space", 4)
    shown = history.view()
    assert shown.latest_savepoint is not None
    assert shown.latest_savepoint.path == "/s"
    assert shown.latest_failed is not None
    assert shown.latest_failed.failure == "no space"
    assert (shown.counts.in_progress, shown.counts.completed, shown.counts.failed) == (0, 1, 1)


def test_a_history_of_size_zero_keeps_only_the_latest_entries():
    """The latest completed checkpoint is known without any history (CKPT-08)."""
    history = CheckpointHistory([A], 0)
    history.batches_committed(A, [batch(0)])
    shown = history.view()
    assert shown.history == ()
    assert shown.latest_completed is not None


REPORTS = st.lists(
    st.one_of(st.tuples(st.sampled_from([A, B]), st.integers(0, 50)), st.just(None)), max_size=60
)
"""Batches of two queries, in any order and repeated; None is a savepoint."""


def report_all(history: CheckpointHistory, reports: list[tuple[RegionId, int] | None]) -> list[int]:
    """Record all reports and return the ids of their checkpoints and savepoints, in order."""
    ids: list[int] = []
    for number, each in enumerate(reports):
        if each is None:
            history.savepoint_started(f"s{number}", CheckpointKind.SAVEPOINT, number)
            history.savepoint_completed(f"s{number}", SavepointTaken(path="/s"), number)
            latest = history.view().latest_savepoint
        else:
            before = history.view().counts.completed
            history.batches_committed(each[0], [batch(each[1])])
            if history.view().counts.completed == before:
                continue
            latest = history.view().latest_completed
        assert latest is not None
        ids.append(latest.id)
    return ids


@given(REPORTS)
def test_ids_of_checkpoints_and_savepoints_grow_and_the_history_is_bounded(
    reports: list[tuple[RegionId, int] | None],
):
    """No id is given twice (CKPT-01, CKPT-08)."""
    history = CheckpointHistory([A, B], 5)
    ids = report_all(history, reports)
    assert ids == sorted(set(ids))
    assert len(history.view().history) <= 5


@given(REPORTS, st.integers(0, 9))
def test_ids_under_a_new_leader_exceed_all_earlier_ids_once_all_queries_have_reported(
    reports: list[tuple[RegionId, int] | None], further: int
):
    """The new leader knows only the latest batch of each query (CKPT-10)."""
    # One leader hears of each batch of a running query once and in order.
    in_order: list[tuple[RegionId, int] | None] = []
    batches = {A: 0, B: 0}
    for each in reports:
        if each is None:
            in_order.append(None)
        else:
            in_order.append((each[0], batches[each[0]]))
            batches[each[0]] += 1
    previous = CheckpointHistory([A, B], 5)
    earlier = report_all(previous, in_order)
    later = CheckpointHistory([A, B], 5)
    later.savepoints_started = previous.savepoints_started
    report_all(later, [(region, last - 1) for region, last in batches.items() if last])
    ids = report_all(later, [(A, batches[A] + number) for number in range(further)])
    assert all(number > max(earlier, default=0) for number in ids)


def test_a_savepoint_in_progress_has_its_own_id():
    history = CheckpointHistory([A], 10)
    history.batches_committed(A, [batch(0)])
    history.savepoint_started("x", CheckpointKind.SAVEPOINT, 1)
    history.batches_committed(A, [batch(1)])
    history.savepoint_completed("x", SavepointTaken(path="/s"), 2)
    assert sorted(entry.id for entry in history.view().history) == [1, 2, 3]
