"""Options of the dispatcher."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from stoker.core.errors import InvalidOption
from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """The queue `default` always exists; others exist when one of these options names them."""

    names: tuple[str, ...] = option("queues.names", "Queues without a limit.", ())
    running_jobs: dict[str, str] = option(
        "queues.running-jobs",
        "Name of a queue and how many of its jobs run at the same time; the others wait.",
        {},
    )
    slots: dict[str, str] = option(
        "queues.slots",
        "Name of a queue and how many slots its running jobs may use together.",
        {},
    )
    ageing: timedelta = option(
        "queues.priority-ageing",
        "The priority of a job rises by one each time it has waited this long in its queue; 0 s "
        "disables this, and unimportant jobs may then wait for ever.",
        timedelta(minutes=5),
    )

    def __post_init__(self) -> None:
        for key, limits in (
            ("queues.running-jobs", self.running_jobs),
            ("queues.slots", self.slots),
        ):
            for name, text in limits.items():
                if not text.isdecimal() or int(text) < 1:
                    raise InvalidOption(
                        f"{key} of queue {name} is {text!r}; write a whole number from 1 up",
                        key=key,
                    )


class CleanupStrategy(StrEnum):
    NONE = "none"
    DISABLE = "disable"
    OFF = "off"
    FIXED_DELAY = "fixed-delay"
    EXPONENTIAL_DELAY = "exponential-delay"


@dataclass(frozen=True, kw_only=True)
class DispatcherOptions:
    max_graph_size: ByteSize = option(
        "job.graph.max-size",
        "Largest job graph that is accepted; files belong in artifacts.",
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
    cleanup_strategy: CleanupStrategy = option(
        "cleanup-strategy.type",
        "How a clean-up step that failed is tried again: exponential-delay, fixed-delay, or none "
        "(also: disable, off), which leaves it to the next leader.",
        CleanupStrategy.EXPONENTIAL_DELAY,
    )
    cleanup_fixed_attempts: int | None = option(
        "cleanup-strategy.fixed-delay.attempts",
        "How often a clean-up step is tried with fixed-delay; unset means until it succeeds.",
        None,
    )
    cleanup_fixed_delay: timedelta = option(
        "cleanup-strategy.fixed-delay.delay",
        "Wait between tries of a clean-up step with fixed-delay.",
        timedelta(minutes=1),
    )
    cleanup_exponential_attempts: int | None = option(
        "cleanup-strategy.exponential-delay.attempts",
        "How often a clean-up step is tried with exponential-delay; unset means until it succeeds.",
        None,
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
        "Files of the storage that no job or result points to are removed when they are older "
        "than this; must be longer than any submission takes.",
        timedelta(days=1),
    )
    orphans_sweep_interval: timedelta = option(
        "storage.orphans.sweep-interval",
        "How often the storage is searched for such files.",
        timedelta(hours=1),
    )
    shutdown_timeout: timedelta = option(
        "cluster.shutdown.timeout",
        "How long a cluster that is shut down for good waits for savepoints that are being taken, "
        "and then for the end and clean-up of its cancelled jobs.",
        timedelta(minutes=2),
    )
    master_restart_delay: timedelta = option(
        "dispatcher.job-master.restart-delay",
        "First wait before a job master that broke is started again; doubles with each failure, up "
        "to a minute.",
        timedelta(seconds=1),
    )
