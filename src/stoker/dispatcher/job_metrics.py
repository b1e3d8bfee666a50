"""What the leading dispatcher shows of its jobs as metrics.

Everything here is read from the lists of jobs when somebody asks, so a job costs nothing while it
runs, and no series is left of it when it has ended.
"""

from collections import Counter as Tally
from collections.abc import Mapping

from stoker.aio.clock import WallClock
from stoker.core.results import JobSummary
from stoker.core.states import JobStatus
from stoker.dispatcher.jobs import LiveJobs
from stoker.metrics.catalogue import (
    JOB_UPTIME,
    JOBS,
    JOBS_KEPT,
    JOBS_QUARANTINED,
    JOBS_WAITING,
)
from stoker.metrics.registry import MetricGroup

WAITS = {"its turn": "turn", "a slot": "slot"}
"""What a job waits for, by the words in its summary."""


def measure_jobs(metrics: MetricGroup, jobs: LiveJobs, wall_clock: WallClock) -> None:
    """Show the jobs for as long as the group is open."""
    metrics.gauges(JOBS, lambda: jobs_by_state(jobs.index.summaries()))
    metrics.gauges(JOBS_WAITING, lambda: jobs_by_wait(jobs.index.summaries()))
    metrics.gauges(JOB_UPTIME, lambda: uptimes(jobs.index.summaries(), wall_clock()))
    metrics.gauges(
        JOBS_KEPT,
        lambda: {
            (status.value,): jobs.ended.count(status)
            for status in JobStatus
            if status.globally_terminal
        },
    )
    metrics.gauge(JOBS_QUARANTINED, lambda: len(jobs.quarantine.all()))


def jobs_by_state(summaries: list[JobSummary]) -> Mapping[tuple[str, ...], float]:
    """Every state in which a job can be that has not ended, also those without a job."""
    counts = Tally(summary.status for summary in summaries)
    return {(state.value,): counts[state] for state in JobStatus if not state.globally_terminal}


def jobs_by_wait(summaries: list[JobSummary]) -> Mapping[tuple[str, ...], float]:
    counts = Tally(summary.waits_for for summary in summaries)
    return {(name,): counts[words] for words, name in WAITS.items()}


def uptimes(summaries: list[JobSummary], now: int) -> Mapping[tuple[str, ...], float]:
    return {
        (summary.job_id, summary.name): (
            max(0, now - summary.last_change) / 1000 if summary.status is JobStatus.RUNNING else 0.0
        )
        for summary in summaries
    }
