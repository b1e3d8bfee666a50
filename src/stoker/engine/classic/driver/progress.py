"""The progress of a program or a batch region, from the REST API of Spark's UI."""

from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from stoker.core.results import Progress, ProgressPart
from stoker.engine.spark_page import FILTERS, KEY, open_page, page_key_in, with_token

MOST_PARTS = 20
"""Most Spark jobs and queries in one report; the newest are kept."""
_ANSWER_SECONDS = 10.0


def current_progress() -> Progress | None:
    """Ask Spark's UI for the progress; None if there is no Spark context, or its UI is off."""
    context: Any = SparkContext._active_spark_context
    if context is None or not context.uiWebUrl:
        return None
    settings = {name: context._conf.get(name, "") for name in (FILTERS, KEY)}
    page = with_token(context.uiWebUrl, page_key_in(settings))
    root = f"{page}/api/v1/applications/{context.applicationId}"
    jobs = open_page(f"{root}/jobs", seconds=_ANSWER_SECONDS)
    return progress_of(jobs, _queries())


def _queries() -> list[dict[str, Any]]:
    session: Any = SparkSession._instantiatedSession
    if session is None:
        return []
    found = []
    for query in session.streams.active:
        last = query.lastProgress or {}
        found.append({**last, "id": query.id, "runId": query.runId, "name": query.name})
    return found


def progress_of(jobs: list[dict[str, Any]], queries: list[dict[str, Any]]) -> Progress:
    """Build progress from the answers of Spark's UI, which lists the newest jobs first."""
    first = queries[0] if queries else {}
    return Progress(
        tasks_total=sum(job["numTasks"] - job["numSkippedTasks"] for job in jobs),
        tasks_done=sum(job["numCompletedTasks"] for job in jobs),
        batch_id=first.get("batchId"),
        rows_per_second=first.get("processedRowsPerSecond"),
        query_id=first.get("id"),
        run_id=first.get("runId"),
        parts=(*map(_query_part, queries), *map(_job_part, jobs))[:MOST_PARTS],
    )


def _job_part(job: dict[str, Any]) -> ProgressPart:
    return ProgressPart(
        id=f"job-{job['jobId']}",
        name=str(job.get("description") or job["name"]),
        kind="spark-job",
        state=str(job["status"]),
        tasks_total=job["numTasks"] - job["numSkippedTasks"],
        tasks_done=job["numCompletedTasks"],
    )


def _query_part(query: dict[str, Any]) -> ProgressPart:
    return ProgressPart(
        id=str(query["id"]),
        name=str(query.get("name") or query["id"]),
        kind="streaming-query",
        state="RUNNING",
        batch_id=query.get("batchId"),
        rows_per_second=query.get("processedRowsPerSecond"),
    )
