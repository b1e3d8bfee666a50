"""What is said of each job, in blocks that are ready to be sent."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.graph import JobType
from stoker.core.ids import JobId
from stoker.core.results import JobSummary
from stoker.core.states import JobStatus
from stoker.rest.job_list.rows import ListedJob, ListedJobs, json_array, listed, place_of


def job(number: int, start: int = 0, *, lives: bool = False) -> ListedJob:
    return listed(
        JobSummary(
            job_id=JobId(f"{number:032x}"),
            name=f'the "duration": of {number}',
            job_type=JobType.BATCH,
            status=JobStatus.RUNNING if lives else JobStatus.FINISHED,
            start=start,
            end=None if lives else start + 10,
        )
    )


def encoded(jobs: ListedJobs, now: int = 500) -> bytes:
    return b"".join(json_array(jobs.pieces(now), b'{"jobs":', b"}"))


@given(
    first=st.lists(st.integers(0, 30), unique=True),
    steps=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.booleans())),
    most=st.integers(2, 9),
    least=st.integers(1, 4),
)
def test_blocks_are_the_sorted_list_whatever_comes_and_goes(
    first: list[int], steps: list[tuple[int, int, bool]], most: int, least: int
) -> None:
    known = {number: job(number) for number in first}
    jobs = ListedJobs(sorted(known.values(), key=lambda each: place_of(each.summary)), most, least)
    for number, start, lives in steps:
        if number in known:
            jobs.remove(known.pop(number))
        else:
            known[number] = job(number, start, lives=lives)
            jobs.add(known[number])
        expected = sorted(known.values(), key=lambda each: place_of(each.summary))
        assert list(jobs) == expected
        told = msgspec.json.decode(encoded(jobs))["jobs"]
        assert [each["jid"] for each in told] == [each.summary.job_id for each in expected]
        for each, summary in zip(told, (one.summary for one in expected), strict=True):
            end = 500 if summary.end is None else summary.end
            assert each["duration"] == end - summary.start


def test_what_has_ended_is_put_together_once() -> None:
    jobs = ListedJobs([job(1, 9, lives=True), *(job(number) for number in range(2, 9))], most=2)
    before, after = (json_array(jobs.pieces(now), b"", b"") for now in (500, 600))
    assert len(before) == len(after) == 5
    assert before[0] != after[0], "one that lives is older now"
    assert all(one is other for one, other in zip(before[1:4], after[1:4], strict=True))


def test_a_change_is_seen_in_a_block_that_was_ready() -> None:
    jobs = ListedJobs([job(number) for number in range(4)], most=2)
    encoded(jobs)
    jobs.remove(job(3))
    jobs.add(job(3, lives=True))
    assert b"RUNNING" in encoded(jobs)


def test_those_that_have_ended_stay_as_they_are_when_others_come_before_them() -> None:
    ended = [job(number) for number in range(2, 9)]
    jobs = ListedJobs([job(1, 9, lives=True), *ended], most=20, least=3)
    [_, before] = jobs.pieces(500)
    jobs.add(job(10, 12, lives=True))
    jobs.add(job(11, 13))
    [living, after] = jobs.pieces(600)
    assert after is before
    assert living.count(b'"jid"') == 3, "one that has ended alone is not worth a piece"
