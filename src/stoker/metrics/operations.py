"""Measures operations that may fail: how long they take, and how often they fail in which way."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from stoker.core.errors import StokerError
from stoker.metrics.definitions import MetricDefinition
from stoker.metrics.registry import MetricGroup

T = TypeVar("T")


class OperationMetrics:
    def __init__(
        self,
        metrics: MetricGroup,
        duration: MetricDefinition,
        errors: MetricDefinition,
        *,
        failures: tuple[type[StokerError], ...],
    ) -> None:
        """`failures`: the errors that count as such; any other error is an answer."""
        self._now = metrics.now
        self._duration = metrics.histogram(duration)
        self._errors = metrics.counter(errors)
        self._failures = failures

    async def measure(self, operation: str, call: Callable[[], Awaitable[T]]) -> T:
        began = self._now()
        try:
            answer = await call()
        except self._failures as error:
            self._errors.increment(operation, type(error).__name__)
            raise
        except StokerError:
            self._duration.observe(self._now() - began, operation)
            raise
        self._duration.observe(self._now() - began, operation)
        return answer
