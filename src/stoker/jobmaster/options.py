"""What can be set about job masters."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.graph import JobType, RestartPolicy
from stoker.core.options import option


@dataclass(frozen=True, kw_only=True)
class JobMasterOptions:
    slot_request_timeout: timedelta = option(
        "slot.request.timeout",
        "A job that has waited this long without getting any slot fails, with the reason.",
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
        "How often a cancel is repeated until the attempt has ended.",
        timedelta(seconds=5),
    )
    restart_strategy: str | None = option(
        "restart-strategy.type",
        "none, fixed-delay or exponential-delay, for jobs that name none of their own; unset means "
        "exponential-delay for streaming jobs and none for batch jobs.",
        None,
    )
    fixed_delay_attempts: int = option(
        "restart-strategy.fixed-delay.attempts", "Restarts before the job fails.", 1
    )
    fixed_delay: timedelta = option(
        "restart-strategy.fixed-delay.delay", "Wait before each restart.", timedelta(seconds=1)
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

    def policy_for(self, job_type: JobType) -> RestartPolicy:
        """The cluster's answer to failures of jobs that bring none of their own (FAIL-05)."""
        by_type = "exponential-delay" if job_type is JobType.STREAMING else "none"
        strategy = self.restart_strategy or by_type
        fixed = strategy == "fixed-delay"
        delay = self.fixed_delay if fixed else self.initial_backoff
        return RestartPolicy(
            strategy=strategy,
            attempts=self.fixed_delay_attempts,
            delay_seconds=delay.total_seconds(),
            max_delay_seconds=self.max_backoff.total_seconds(),
            multiplier=self.backoff_multiplier,
            jitter=self.jitter_factor,
            reset_after_seconds=self.reset_backoff_threshold.total_seconds(),
        )
