"""Restart strategies: given a failure and its time, restart after how long, or not at all."""

from dataclasses import dataclass, replace
from typing import Protocol

from stoker.core.errors import InvalidOption
from stoker.core.graph import RestartPolicy

STRATEGIES = ("none", "fixed-delay", "exponential-delay")


class RestartStrategy(Protocol):
    def after_failure(self, now: float, jitter: float) -> tuple["RestartStrategy", float | None]:
        """The strategy as it is from now on, and the seconds to wait; None means no restart.

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
class ExponentialDelay:
    initial: float
    maximum: float
    multiplier: float
    jitter_factor: float
    reset_after: float
    current: float | None = None
    last_failure: float | None = None

    def after_failure(self, now: float, jitter: float) -> tuple[RestartStrategy, float | None]:
        waited = self.current or 0.0
        quiet = (
            self.last_failure is not None and now - self.last_failure >= self.reset_after + waited
        )
        if self.current is None or quiet:
            base = self.initial
        else:
            base = min(self.maximum, self.current * self.multiplier)
        wait = min(self.maximum, base * (1 + jitter * self.jitter_factor))
        return replace(self, current=base, last_failure=now), wait


def strategy_for(policy: RestartPolicy) -> RestartStrategy:
    match policy.strategy:
        case "none":
            return NoRestart()
        case "fixed-delay":
            return FixedDelay(attempts=policy.attempts, delay=policy.delay_seconds)
        case "exponential-delay":
            return ExponentialDelay(
                initial=policy.delay_seconds,
                maximum=policy.max_delay_seconds,
                multiplier=policy.multiplier,
                jitter_factor=policy.jitter,
                reset_after=policy.reset_after_seconds,
            )
        case other:
            raise InvalidOption(
                f"unknown restart strategy {other!r}; choose one of {', '.join(STRATEGIES)}"
            )
