"""The progress of a program, from Spark's monitoring."""

from typing import Any

from stoker.engine.classic.driver.progress import MOST_PARTS, progress_of


def job(number: int, **more: Any) -> dict[str, Any]:
    facts = {"numTasks": 4, "numSkippedTasks": 1, "numCompletedTasks": 2, "status": "RUNNING"}
    return {"jobId": number, "name": f"count at job.py:{number}", **facts, **more}


def test_tasks_of_all_jobs_are_added_up_without_skipped_ones() -> None:
    progress = progress_of([job(1), job(0, status="SUCCEEDED", numCompletedTasks=3)], [])
    assert (progress.tasks_total, progress.tasks_done) == (6, 5)
    assert [(part.id, part.state, part.tasks_done) for part in progress.parts] == [
        ("job-1", "RUNNING", 2),
        ("job-0", "SUCCEEDED", 3),
    ]


def test_streaming_queries_come_first_with_their_batches() -> None:
    query = {"id": "q", "runId": "r", "name": "clicks", "batchId": 7, "processedRowsPerSecond": 9.5}
    progress = progress_of([job(0)], [query, {"id": "new", "runId": "s", "name": None}])
    assert (progress.batch_id, progress.query_id, progress.rows_per_second) == (7, "q", 9.5)
    assert [(part.kind, part.name) for part in progress.parts[:2]] == [
        ("streaming-query", "clicks"),
        ("streaming-query", "new"),
    ]


def test_only_the_newest_of_a_thousand_spark_jobs_are_reported() -> None:
    progress = progress_of([job(n) for n in reversed(range(1000))], [])
    assert len(progress.parts) == MOST_PARTS
    assert progress.parts[0].id == "job-999"
    assert progress.tasks_total == 3000
