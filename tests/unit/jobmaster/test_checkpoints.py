"""The history of a job's checkpoints. CKPT-08, CKPT-10, CKPT-19."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.checkpoints import BatchFigures, CheckpointKind, SavepointTaken
from stoker.core.ids import RegionId
from stoker.jobmaster.checkpoints import CheckpointHistory

A, B = RegionId("a"), RegionId("b")


def batch(number: int) -> BatchFigures:
    return BatchFigures(batch_id=number, at=number * 10, rows=1, duration_ms=5)


def test_every_committed_batch_counts_once_however_often_it_is_told():
    history = CheckpointHistory([A], 10)
    history.committed(A, [batch(0), batch(1)])
    history.committed(A, [batch(0), batch(1), batch(2)])
    shown = history.shown()
    assert (shown.counts.total, shown.counts.completed) == (3, 3)
    assert [entry.figures.batch_id for entry in shown.history if entry.figures] == [2, 1, 0]


def test_a_savepoint_is_in_progress_and_then_taken_or_failed():
    history = CheckpointHistory([A], 10)
    history.savepoint_begun("x", CheckpointKind.SAVEPOINT, 1)
    assert history.shown().counts.in_progress == 1
    history.savepoint_taken("x", SavepointTaken(path="/s"), 2)
    history.savepoint_begun("y", CheckpointKind.STOP_SAVEPOINT, 3)
    history.savepoint_failed("y", "no space", 4)
    shown = history.shown()
    assert shown.latest_savepoint is not None
    assert shown.latest_savepoint.path == "/s"
    assert shown.latest_failed is not None
    assert shown.latest_failed.failure == "no space"
    assert (shown.counts.in_progress, shown.counts.completed, shown.counts.failed) == (0, 1, 1)


def test_a_history_of_none_keeps_the_latest_alone():
    history = CheckpointHistory([A], 0)
    history.committed(A, [batch(0)])
    shown = history.shown()
    assert shown.history == ()
    assert shown.latest_completed is not None


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 50)), max_size=60))
def test_ids_are_unique_grow_with_each_query_and_the_history_is_bounded(
    told: list[tuple[RegionId, int]],
):
    history = CheckpointHistory([A, B], 5)
    ids: dict[RegionId, list[int]] = {A: [], B: []}
    for region, number in told:
        history.committed(region, [batch(number)])
        latest = history.shown().latest_completed
        assert latest is not None
        if latest.region == region and (not ids[region] or latest.id != ids[region][-1]):
            ids[region].append(latest.id)
    assert len(history.shown().history) <= 5
    for numbers in ids.values():
        assert numbers == sorted(set(numbers))
    assert not set(ids[A]) & set(ids[B])
