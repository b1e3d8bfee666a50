"""Options of job masters."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from stoker.core.errors import InvalidOption
from stoker.core.graph import JobType, RestartPolicy
from stoker.core.job_options import (
    JOB_OPTIONS,
    PARALLELISM_OVERRIDES,
    RESTART_TYPE,
    parse_overrides,
)
from stoker.core.options import option


class FailoverStrategy(StrEnum):
    REGION = "region"
    FULL = "full"


@dataclass(frozen=True, kw_only=True)
class JobMasterOptions:
    slot_request_timeout: timedelta = option(
        "slot.request.timeout",
        "A job that runs nothing fails, with the reason, when the slots that it needs have not "
        "existed for this long; while others have them it waits for its turn.",
        timedelta(minutes=5),
    )
    death_grace: timedelta = option(
        "task.death-grace",
        "Wait after the proven death of a task executor before its attempts are replaced, in which "
        "the kernel ends its Spark engine and runners.",
        timedelta(seconds=3),
    )
    cancel_retry: timedelta = option(
        "task.cancellation.interval",
        "Time between two cancellation requests for one attempt, until it has ended.",
        timedelta(seconds=5),
    )
    restart_strategy: str = option(
        "restart-strategy.type",
        "none (also off or disable), fixed-delay, failure-rate or exponential-delay, for jobs that "
        "set no strategy of their own; unset means exponential-delay for streaming jobs and none "
        "for batch jobs.",
        "",
    )
    fixed_delay_attempts: int = option(
        "restart-strategy.fixed-delay.attempts", "Restarts before the job fails.", 1
    )
    fixed_delay: timedelta = option(
        "restart-strategy.fixed-delay.delay", "Wait before each restart.", timedelta(seconds=1)
    )
    failure_rate_failures: int = option(
        "restart-strategy.failure-rate.max-failures-per-interval",
        "Failures that the interval may have before the job fails.",
        1,
    )
    failure_rate_interval: timedelta = option(
        "restart-strategy.failure-rate.failure-rate-interval",
        "The interval in which failures are counted.",
        timedelta(minutes=1),
    )
    failure_rate_delay: timedelta = option(
        "restart-strategy.failure-rate.delay", "Wait before each restart.", timedelta(seconds=1)
    )
    initial_backoff: timedelta = option(
        "restart-strategy.exponential-delay.initial-backoff", "First wait.", timedelta(seconds=1)
    )
    max_backoff: timedelta = option(
        "restart-strategy.exponential-delay.max-backoff", "Longest wait.", timedelta(minutes=1)
    )
    backoff_multiplier: float = option(
        "restart-strategy.exponential-delay.backoff-multiplier", "Growth for each failure.", 1.5
    )
    jitter_factor: float = option(
        "restart-strategy.exponential-delay.jitter-factor",
        "Random share that is added to or taken from the wait.",
        0.1,
    )
    reset_backoff_threshold: timedelta = option(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        "Time without failure after which the wait starts over.",
        timedelta(hours=1),
    )
    attempts_before_reset_backoff: int | None = option(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        "Restarts within one run of growing waits before the job fails; unset means no limit.",
        None,
    )
    failover_strategy: FailoverStrategy = option(
        "jobmanager.execution.failover-strategy",
        "region: the failed region and those that read its result restart; full: all that have "
        "not finished.",
        FailoverStrategy.REGION,
    )
    exception_history_size: int = option(
        "web.exception-history-size", "Failures kept in the history of each job.", 16
    )
    attempts_history_size: int = option(
        "jobmanager.execution.attempts-history-size",
        "Previous attempts kept in the history of each region.",
        16,
    )
    failure_enrichers: tuple[str, ...] = option(
        "jobmanager.failure-enrichers",
        "Names of the enrichers that label failures: cause, which is built in, and entry points "
        "of the group stoker.failure_enrichers. Empty means none.",
        ("cause",),
    )
    enricher_timeout: timedelta = option(
        "jobmanager.failure-enrichers.timeout",
        "Time that the enrichers from plug-ins have for one failure; labels that come later are "
        "dropped.",
        timedelta(seconds=10),
    )
    parallelism_overrides: dict[str, str] = option(
        PARALLELISM_OVERRIDES,
        "Number of shuffle partitions by the name of a vertex, for the region that it belongs to; "
        "what a job sets under this key in its own configuration wins.",
        {},
    )

    def __post_init__(self) -> None:
        """Check what every job master reads: a wrong value would break all jobs of the cluster."""
        try:
            if self.restart_strategy:
                JOB_OPTIONS[RESTART_TYPE](self.restart_strategy)
        except ValueError as error:
            message = f"{RESTART_TYPE} is {self.restart_strategy!r}: {error}"
            raise InvalidOption(message, key=RESTART_TYPE) from error
        for vertex, number in self.parallelism_overrides.items():
            try:
                parse_overrides(f"{vertex}:{number}")
            except ValueError as error:
                raise InvalidOption(
                    f"{PARALLELISM_OVERRIDES} of vertex {vertex} is {number!r}; write a whole "
                    "number from 1 up",
                    key=PARALLELISM_OVERRIDES,
                ) from error

    def policy_for(self, job_type: JobType) -> RestartPolicy:
        """Restart policy of the cluster, for jobs that set none of their own."""
        by_type = "exponential-delay" if job_type is JobType.STREAMING else "none"
        strategy = self.restart_strategy or by_type
        strategy = "none" if strategy in ("off", "disable") else strategy
        delays = {"fixed-delay": self.fixed_delay, "failure-rate": self.failure_rate_delay}
        return RestartPolicy(
            strategy=strategy,
            attempts=self.fixed_delay_attempts,
            delay_seconds=delays.get(strategy, self.initial_backoff).total_seconds(),
            max_delay_seconds=self.max_backoff.total_seconds(),
            multiplier=self.backoff_multiplier,
            jitter=self.jitter_factor,
            reset_after_seconds=self.reset_backoff_threshold.total_seconds(),
            max_failures=self.failure_rate_failures,
            interval_seconds=self.failure_rate_interval.total_seconds(),
            attempts_before_reset=self.attempts_before_reset_backoff,
        )
