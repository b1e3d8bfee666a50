"""Restart strategies: whether a failed region restarts, and after which delay. Pure."""

from dataclasses import dataclass, replace
from typing import Protocol

from stoker.core.errors import InvalidOption
from stoker.core.graph import RestartPolicy
from stoker.core.job_options import RESTART_STRATEGIES


class RestartStrategy(Protocol):
    def after_failure(self, now: float, jitter: float) -> tuple["RestartStrategy", float | None]:
        """The strategy after this failure and the seconds to wait; None means no restart.

        `jitter` is a random number from -1 to 1.
        """
        ...


@dataclass(frozen=True)
class NoRestart:
    def after_failure(self, now: float, jitter: float) -> tuple[RestartStrategy, float | None]:
        return self, None


@dataclass(frozen=True, kw_only=True)
class FixedDelay:
    attempts: int
    delay: float
    used: int = 0

    def after_failure(self, now: float, jitter: float) -> tuple[RestartStrategy, float | None]:
        if self.used >= self.attempts:
            return self, None
        return replace(self, used=self.used + 1), self.delay


@dataclass(frozen=True, kw_only=True)
class FailureRate:
    max_failures: int
    interval: float
    delay: float
    failures: tuple[float, ...] = ()
    """Times of failures within the interval, at most one more than are allowed."""

    def after_failure(self, now: float, jitter: float) -> tuple[RestartStrategy, float | None]:
        recent = tuple(at for at in self.failures if now - at < self.interval)
        counted = (*recent, now)[-(self.max_failures + 1) :]
        allowed = len(counted) <= self.max_failures
        return replace(self, failures=counted), self.delay if allowed else None


@dataclass(frozen=True, kw_only=True)
class ExponentialDelay:
    initial: float
    maximum: float
    multiplier: float
    jitter_factor: float
    reset_after: float
    attempts: int | None = None
    current: float | None = None
    last_failure: float | None = None
    due: float | None = None
    """Time of the restart that was granted last."""
    used: int = 0
    """Restarts since the backoff was last reset."""

    def after_failure(self, now: float, jitter: float) -> tuple[RestartStrategy, float | None]:
        if self.due is not None and now < self.due:
            # All failures during one wait share one restart, at the time already granted.
            return self, self.due - now
        fresh = self._is_fresh(now)
        used = 0 if fresh else self.used
        if self.attempts is not None and used >= self.attempts:
            return self, None
        base = self.initial if fresh else min(self.maximum, (self.current or 0) * self.multiplier)
        wait = min(self.maximum, base * (1 + jitter * self.jitter_factor))
        after = replace(self, current=base, last_failure=now, due=now + wait, used=used + 1)
        return after, wait

    def _is_fresh(self, now: float) -> bool:
        if self.current is None or self.last_failure is None:
            return True
        return now - self.last_failure >= self.reset_after + self.current


def strategy_for(policy: RestartPolicy) -> RestartStrategy:
    match policy.strategy:
        case "none":
            return NoRestart()
        case "fixed-delay":
            return FixedDelay(attempts=policy.attempts, delay=policy.delay_seconds)
        case "failure-rate":
            return FailureRate(
                max_failures=policy.max_failures,
                interval=policy.interval_seconds,
                delay=policy.delay_seconds,
            )
        case "exponential-delay":
            return ExponentialDelay(
                initial=policy.delay_seconds,
                maximum=policy.max_delay_seconds,
                multiplier=policy.multiplier,
                jitter_factor=policy.jitter,
                reset_after=policy.reset_after_seconds,
                attempts=policy.attempts_before_reset,
            )
        case other:
            raise InvalidOption(
                f"unknown restart strategy {other!r}; choose one of {', '.join(RESTART_STRATEGIES)}"
            )
