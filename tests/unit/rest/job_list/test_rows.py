"""Encoded rows of the job list, in blocks that are ready to be sent."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.graph import JobType
from stoker.core.ids import JobId
from stoker.core.results import JobSummary
from stoker.core.states import JobStatus
from stoker.rest.job_list.rows import JobRow, JobRows, json_array, make_row, newest_first


def job(number: int, start: int = 0, *, is_live: bool = False) -> JobRow:
    return make_row(
        JobSummary(
            job_id=JobId(f"{number:032x}"),
            name=f'the "duration": of {number}',
            job_type=JobType.BATCH,
            status=JobStatus.RUNNING if is_live else JobStatus.FINISHED,
            start=start,
            end=None if is_live else start + 10,
        )
    )


def encode(jobs: JobRows, now: int = 500) -> bytes:
    return b"".join(json_array(jobs.pieces(now), b'{"jobs":', b"}"))


@given(
    first=st.lists(st.integers(0, 30), unique=True),
    steps=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.booleans())),
    max_block_rows=st.integers(2, 9),
    min_ended_run=st.integers(1, 4),
)
def test_blocks_stay_the_sorted_list_when_jobs_are_added_and_removed(
    first: list[int], steps: list[tuple[int, int, bool]], max_block_rows: int, min_ended_run: int
) -> None:
    known = {number: job(number) for number in first}
    jobs = JobRows(
        sorted(known.values(), key=lambda each: newest_first(each.summary)),
        max_block_rows,
        min_ended_run,
    )
    for number, start, is_live in steps:
        if number in known:
            jobs.remove(known.pop(number))
        else:
            known[number] = job(number, start, is_live=is_live)
            jobs.add(known[number])
        expected = sorted(known.values(), key=lambda each: newest_first(each.summary))
        assert list(jobs) == expected
        decoded = msgspec.json.decode(encode(jobs))["jobs"]
        assert [each["jid"] for each in decoded] == [each.summary.job_id for each in expected]
        for each, summary in zip(decoded, (one.summary for one in expected), strict=True):
            end = 500 if summary.end is None else summary.end
            assert each["duration"] == end - summary.start


def test_ended_jobs_are_joined_once() -> None:
    jobs = JobRows(
        [job(1, 9, is_live=True), *(job(number) for number in range(2, 9))], max_block_rows=2
    )
    before, after = (json_array(jobs.pieces(now), b"", b"") for now in (500, 600))
    assert len(before) == len(after) == 5
    assert before[0] != after[0], "the duration of a live job has grown"
    assert all(one is other for one, other in zip(before[1:4], after[1:4], strict=True))


def test_a_change_updates_a_block_that_was_already_joined() -> None:
    jobs = JobRows([job(number) for number in range(4)], max_block_rows=2)
    encode(jobs)
    jobs.remove(job(3))
    jobs.add(job(3, is_live=True))
    assert b"RUNNING" in encode(jobs)


def test_the_piece_of_ended_jobs_is_reused_when_jobs_are_added_before_them() -> None:
    ended = [job(number) for number in range(2, 9)]
    jobs = JobRows([job(1, 9, is_live=True), *ended], max_block_rows=20, min_ended_run=3)
    [_, before] = jobs.pieces(500)
    jobs.add(job(10, 12, is_live=True))
    jobs.add(job(11, 13))
    [living, after] = jobs.pieces(600)
    assert after is before
    assert living.count(b'"jid"') == 3, "a single ended job is not a piece of its own"
