"""What can be set about the dispatcher."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class DispatcherOptions:
    max_graph_size: ByteSize = option(
        "job.graph.max-size",
        "Largest job graph that is accepted; files belong into artifacts.",
        ByteSize(8 * 1024 * 1024),
    )
    recovery_concurrency: int = option(
        "recovery.concurrency", "Jobs that a new leader starts at the same time.", 16
    )
    results_max_age: timedelta = option(
        "job-result-store.max-age",
        "How long the result of an ended job is kept; its id cannot be used again until then.",
        timedelta(days=7),
    )
    results_max_count: int = option(
        "job-result-store.max-count", "How many results of ended jobs are kept.", 10_000
    )
    cleanup_initial_backoff: timedelta = option(
        "cleanup-strategy.exponential-delay.initial-backoff",
        "First wait before a clean-up step that failed is tried again.",
        timedelta(seconds=1),
    )
    cleanup_max_backoff: timedelta = option(
        "cleanup-strategy.exponential-delay.max-backoff",
        "Longest wait between tries of a clean-up step.",
        timedelta(hours=1),
    )
    orphans_max_age: timedelta = option(
        "storage.orphans.max-age",
        "Files of the storage that no job or result points to are removed when they are older; "
        "must be longer than any submission takes.",
        timedelta(days=1),
    )
    orphans_sweep_interval: timedelta = option(
        "storage.orphans.sweep-interval",
        "How often the storage is searched for such files.",
        timedelta(hours=1),
    )
    master_restart_delay: timedelta = option(
        "dispatcher.job-master.restart-delay",
        "Wait before a job master that broke is started again.",
        timedelta(seconds=1),
    )
