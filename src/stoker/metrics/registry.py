"""The registry of a process: groups of counters, gauges and histograms, and one call to read all.

Groups have the form of Flink's: the group of the process holds those of its jobs, and a group's
labels belong to all that is measured in it. When a job ends its group is closed, and everything in
it leaves the registry. So the number of series follows the number of running jobs, however many
have run. Within one metric, a series beyond the limit is counted under the label value `other`.

Whatever reads a gauge runs on the loop of the process, like everything that is measured.
"""

import math
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from stoker.core.values import Value
from stoker.metrics.definitions import MetricDefinition, MetricKind
from stoker.metrics.labels import OTHER, bounded_label

MAX_SERIES = 1_000
"""Series of one counter or histogram within one group."""

_Labels = tuple[str, ...]
ReadGauge = Callable[[], float | None]
"""The value at this moment; None leaves the metric out."""
ReadGauges = Callable[[], Mapping[tuple[str, ...], float]]
"""The values at this moment, by the values of their labels."""


class MetricSample(Value, array_like=True):
    """The value of one series."""

    labels: tuple[str, ...] = ()
    value: float = 0.0
    """For a histogram, the sum of what it has observed."""
    buckets: tuple[int, ...] = ()
    """For a histogram, how many observations fell into each bucket; the infinite one is last."""

    @property
    def count(self) -> int:
        return sum(self.buckets)


class MetricFamily(Value, array_like=True):
    """All series of one metric."""

    name: str
    samples: tuple[MetricSample, ...] = ()


class _Instrument(ABC):
    """A metric within one group."""

    def __init__(self, definition: MetricDefinition, fixed: _Labels) -> None:
        self.definition = definition
        self._fixed = fixed

    @abstractmethod
    def samples(self) -> Iterable[MetricSample]: ...


class _Labelled(_Instrument):
    """Keeps its values by the labels that its group does not have."""

    def _admit(self, known: Mapping[_Labels, object], labels: _Labels) -> _Labels:
        """The labels under which a series counts that is not known by these."""
        wanted = len(self.definition.labels) - len(self._fixed)
        if len(labels) != wanted:
            raise ValueError(f"metric {self.definition.name} needs {wanted} more labels")
        cleaned = tuple(map(bounded_label, labels))
        if cleaned in known or len(known) < MAX_SERIES:
            return cleaned
        return (OTHER,) * wanted


class Counter(_Labelled):
    def __init__(self, definition: MetricDefinition, fixed: _Labels) -> None:
        super().__init__(definition, fixed)
        self._values: dict[_Labels, float] = {}
        if len(definition.labels) == len(fixed):
            # A rate needs the value before the first event as well.
            self._values[()] = 0.0

    def increment(self, *labels: str, by: float = 1.0) -> None:
        """A counter only grows: a negative or infinite step is dropped."""
        if not 0 <= by < math.inf:
            return
        if labels not in self._values:
            labels = self._admit(self._values, labels)
        self._values[labels] = self._values.get(labels, 0.0) + by

    def value(self, *labels: str) -> float:
        return self._values.get(labels, 0.0)

    def samples(self) -> Iterable[MetricSample]:
        for labels, value in self._values.items():
            yield MetricSample(labels=self._fixed + labels, value=value)


class Histogram(_Labelled):
    def __init__(self, definition: MetricDefinition, fixed: _Labels) -> None:
        super().__init__(definition, fixed)
        self._counts: dict[_Labels, list[int]] = {}
        self._sums: dict[_Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        if not math.isfinite(value):
            return
        counts = self._counts.get(labels)
        if counts is None:
            labels = self._admit(self._counts, labels)
            counts = self._counts.setdefault(labels, [0] * (len(self.definition.bounds) + 1))
        counts[bisect_left(self.definition.bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def samples(self) -> Iterable[MetricSample]:
        for labels, counts in self._counts.items():
            yield MetricSample(
                labels=self._fixed + labels, value=self._sums[labels], buckets=tuple(counts)
            )


class Gauge(_Instrument):
    """Reads its values when somebody asks; nothing is kept in between."""

    def __init__(self, definition: MetricDefinition, fixed: _Labels, read: ReadGauges) -> None:
        super().__init__(definition, fixed)
        self._read = read

    def samples(self) -> Iterable[MetricSample]:
        for labels, value in self._read().items():
            if math.isfinite(value):
                own = tuple(map(bounded_label, labels))
                yield MetricSample(labels=self._fixed + own, value=float(value))


M = TypeVar("M", bound=_Instrument)


class MetricGroup:
    """Measures something as long as it is open. Closing it, or a group above it, ends that.

    Its labels come first among the labels of every metric in it.
    """

    def __init__(
        self, registry: "MetricRegistry", labels: Mapping[str, str], above: "MetricGroup | None"
    ) -> None:
        self.now = registry.now
        """The clock for durations, in seconds."""
        self._registry = registry
        self._names = tuple(labels)
        self._values = tuple(map(bounded_label, labels.values()))
        self._above = above
        self._below: dict[MetricGroup, None] = {}
        self._instruments: dict[str, _Instrument] = {}
        self._is_closed = False

    def group(self, **labels: str) -> "MetricGroup":
        below = MetricGroup(
            self._registry, {**dict(zip(self._names, self._values, strict=True)), **labels}, self
        )
        below._is_closed = self._is_closed
        if not self._is_closed:
            self._below[below] = None
        return below

    def counter(self, definition: MetricDefinition) -> Counter:
        """The counter of this group; a second call returns the same one."""
        known = self._instruments.get(definition.name)
        if isinstance(known, Counter):
            return known
        return self._add(Counter(definition, self._fixed(definition, MetricKind.COUNTER)))

    def histogram(self, definition: MetricDefinition) -> Histogram:
        """The histogram of this group; a second call returns the same one."""
        known = self._instruments.get(definition.name)
        if isinstance(known, Histogram):
            return known
        return self._add(Histogram(definition, self._fixed(definition, MetricKind.HISTOGRAM)))

    def gauge(self, definition: MetricDefinition, read: ReadGauge) -> None:
        """Replaces an earlier gauge of the same metric in this group.

        A counter that something else keeps, such as the kernel, is read in the same way.
        """

        def read_one() -> Mapping[tuple[str, ...], float]:
            value = read()
            return {} if value is None else {(): value}

        self.gauges(definition, read_one)

    def gauges(self, definition: MetricDefinition, read: ReadGauges) -> None:
        """Like `gauge`, for a metric with labels beyond those of the group."""
        if (known := self._instruments.pop(definition.name, None)) is not None:
            self._registry.remove(known)
        self._add(Gauge(definition, self._fixed(definition), read))

    def close(self) -> None:
        """Harmless when it is closed."""
        self._is_closed = True
        for below in list(self._below):
            below.close()
        for instrument in self._instruments.values():
            self._registry.remove(instrument)
        self._instruments.clear()
        if self._above is not None:
            self._above._below.pop(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _add(self, instrument: M) -> M:
        if not self._is_closed:
            self._instruments[instrument.definition.name] = instrument
            self._registry.add(instrument)
        return instrument

    def _fixed(
        self, definition: MetricDefinition, kind: MetricKind | None = None
    ) -> tuple[str, ...]:
        """Values of the labels that the metric has from this group."""
        if kind is not None and definition.kind is not kind:
            raise ValueError(f"metric {definition.name} is a {definition.kind}, not a {kind}")
        if definition.labels[: len(self._names)] != self._names:
            raise ValueError(
                f"the labels of metric {definition.name} do not begin with {self._names}"
            )
        return self._values


class MetricRegistry:
    """Everything that is measured in one process."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        """`now`: the clock for durations. That of the loop stands still during a turn, which is too
        coarse for latencies; a simulation gives its virtual time."""
        self.now = now
        self._by_name: dict[str, dict[_Instrument, None]] = {}
        self.process = MetricGroup(self, {}, None)
        """The group of the whole process."""

    def add(self, instrument: _Instrument) -> None:
        self._by_name.setdefault(instrument.definition.name, {})[instrument] = None

    def remove(self, instrument: _Instrument) -> None:
        name = instrument.definition.name
        instruments = self._by_name.get(name, {})
        instruments.pop(instrument, None)
        if not instruments:
            self._by_name.pop(name, None)

    def collect(self) -> list[MetricFamily]:
        """Read everything. Of two series with the same labels the newer one counts."""
        families = []
        for name, instruments in sorted(self._by_name.items()):
            samples = {sample.labels: sample for each in instruments for sample in each.samples()}
            if samples:
                families.append(MetricFamily(name=name, samples=tuple(samples.values())))
        return families


def unread_metrics() -> MetricGroup:
    """A group that nobody reads, for parts that run without a process of their own."""
    return MetricRegistry().process
