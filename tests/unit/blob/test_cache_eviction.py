"""Which files a full cache evicts (X-BLOB-03)."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.blob.cache import SizeTracker
from stoker.core.ids import BlobKey, JobId

JOBS = [JobId(letter * 32) for letter in "abc"]
ENTRIES = st.tuples(st.sampled_from(JOBS), st.sampled_from([BlobKey(d * 64) for d in "0123"]))


def test_the_least_recently_used_go_first() -> None:
    tracker = SizeTracker(limit=30)
    one, two, three = [(JOBS[0], BlobKey(digit * 64)) for digit in "123"]
    for entry in (one, two, three):
        tracker.add(entry, 10)
    tracker.touch(one)
    assert tracker.victims(0, ()) == ()
    assert tracker.victims(1, ()) == (two,)
    assert tracker.victims(20, ()) == (two, three)
    assert tracker.victims(20, {JOBS[0]}) == ()


@given(
    st.lists(st.tuples(ENTRIES, st.integers(0, 50))),
    st.integers(0, 200),
    st.integers(0, 100),
    st.sets(st.sampled_from(JOBS)),
)
def test_files_in_use_stay_and_no_more_than_needed_is_evicted(
    files: list[tuple[tuple[JobId, BlobKey], int]], limit: int, needed: int, in_use: set[JobId]
) -> None:
    tracker = SizeTracker(limit)
    for entry, size in files:
        tracker.add(entry, size)
    sizes = dict(files)
    assert tracker.total == sum(sizes.values())
    victims = tracker.victims(needed, in_use)
    assert not any(job in in_use for job, _ in victims)
    before_the_last = sum(sizes[entry] for entry in victims[:-1])
    assert not victims or tracker.total + needed - before_the_last > limit
    for entry in victims:
        tracker.remove(entry)
    idle = [entry for job in JOBS if job not in in_use for entry in tracker.of_job(job)]
    assert tracker.total + needed <= limit or not idle
