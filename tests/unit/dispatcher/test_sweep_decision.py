"""Which files are orphans: never a file with a record, never a young file (STORE-10)."""

from datetime import timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from stoker.core.ids import JobId
from stoker.dispatcher.sweep import (
    KnownJobs,
    find_orphans,
    is_checkpoint_of_ended_job,
    is_wanted,
)

AGE = timedelta(days=1)
DAY = AGE.total_seconds()
NOW = 100 * DAY
A, B, C = (JobId(digit * 32) for digit in "abc")

job_ids = st.sampled_from([A, B, C])
names = st.sampled_from(["1.json", "2.json"])
graphs = st.builds("jobs/{}/graph/{}".format, job_ids, names)
details = st.builds("results/{}/{}".format, job_ids, names)
others = st.builds(
    "{}/{}/{}".format,
    st.sampled_from(["jobs", "blobs"]),
    job_ids,
    st.sampled_from(["outcomes/r/1.json", "checkpoints/0/offsets/0", "materialized/x", "f" * 64]),
)
foreign = st.sampled_from(["notes.txt", "jobs/readme", "jobs/x/graph/1", "archive/1", "blobs/a"])
paths = graphs | details | others | foreign
files = st.dictionaries(paths, st.floats(NOW - 3 * DAY, NOW + DAY), max_size=20)


@st.composite
def known_jobs(draw: st.DrawFn) -> KnownJobs:
    def pointers(pattern: str) -> dict[JobId, str | None]:
        ids = draw(st.sets(job_ids))
        return {
            job_id: draw(st.none() | names.map(lambda name, i=job_id: pattern.format(i, name)))
            for job_id in sorted(ids)
        }

    return KnownJobs(
        jobs=pointers("jobs/{}/graph/{}"),
        results=pointers("results/{}/{}"),
        in_use=draw(st.sets(job_ids)),
    )


@given(files, known_jobs())
def test_nothing_that_a_record_points_to_is_an_orphan(
    files: dict[str, float], known: KnownJobs
) -> None:
    doomed = set(find_orphans(files, known, now=NOW, max_age=AGE))
    assert doomed.isdisjoint({*known.jobs.values(), *known.results.values()})
    for path in doomed:
        folder, job_id, *inside = path.split("/")
        if folder == "blobs" or (folder == "jobs" and inside[0] != "graph"):
            assert job_id not in known.jobs
            assert job_id not in known.in_use
        if folder == "jobs" and job_id in known.jobs:
            assert known.jobs[JobId(job_id)] is not None, (
                "all files of a job in quarantine are kept"
            )
        if folder == "results" and job_id in known.results:
            assert known.results[JobId(job_id)] is not None


@given(files, known_jobs())
def test_no_young_file_is_an_orphan_except_checkpoints_of_ended_jobs(
    files: dict[str, float], known: KnownJobs
) -> None:
    for path in find_orphans(files, known, now=NOW, max_age=AGE):
        folder, job_id, inside = path.split("/", 2)
        ended = job_id in known.results and job_id not in {*known.jobs, *known.in_use}
        is_late = ended and folder == "jobs" and inside.startswith("checkpoints/")
        assert is_late or files[path] < NOW - DAY


@given(files, known_jobs())
def test_an_old_file_to_which_no_record_points_is_an_orphan(
    files: dict[str, float], known: KnownJobs
) -> None:
    assume(known.jobs or known.results)
    old = {p for p, at in files.items() if at < NOW - DAY or is_checkpoint_of_ended_job(p, known)}
    expected = {path for path in old if not is_wanted(path, known)}
    assert set(find_orphans(files, known, now=NOW, max_age=AGE)) == expected


@given(files)
def test_without_any_job_on_record_there_are_no_orphans(files: dict[str, float]) -> None:
    """A cluster may have been pointed to a wrong, empty coordinator by mistake."""
    assert find_orphans(files, KnownJobs(jobs={}, results={}), now=NOW, max_age=AGE) == []


def test_leftovers_of_crashes_are_orphans_and_foreign_files_are_not() -> None:
    known = KnownJobs(
        jobs={A: f"jobs/{A}/graph/1.json"}, results={B: f"results/{B}/1.json"}, in_use=set()
    )
    left = [
        f"blobs/{B}/{'f' * 64}",
        f"blobs/{C}/{'f' * 64}",
        f"jobs/{A}/graph/2.json",
        f"jobs/{B}/outcomes/r/1.json",
        f"jobs/{C}/graph/1.json",
        f"results/{B}/2.json",
        f"results/{C}/1.json",
    ]
    kept = [
        f"blobs/{A}/{'f' * 64}",
        f"jobs/{A}/graph/1.json",
        f"jobs/{A}/checkpoints/0",
        f"results/{B}/1.json",
        "jobs/not-an-id/graph/1.json",
        f"archive/{C}/1.json",
        "notes",
    ]
    files = dict.fromkeys([*left, *kept], 0.0)
    assert find_orphans(files, known, now=NOW, max_age=AGE) == left


def test_checkpoints_that_spark_writes_after_the_clean_up_are_removed_by_the_next_sweep() -> None:
    late = f"jobs/{B}/checkpoints/out/state/0/1/40.zip"
    ended = KnownJobs(jobs={}, results={B: f"results/{B}/1.json"})
    assert find_orphans({late: NOW}, ended, now=NOW, max_age=AGE) == [late]
    for known in (
        KnownJobs(jobs={B: f"jobs/{B}/graph/1.json"}, results=ended.results),
        KnownJobs(jobs={}, results=ended.results, in_use={B}),
        KnownJobs(jobs={}, results={A: f"results/{A}/1.json"}),
    ):
        assert find_orphans({late: NOW}, known, now=NOW, max_age=AGE) == []
