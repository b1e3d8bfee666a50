"""Definitions of metrics: the name, kind, labels and meaning that each metric has everywhere."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LABEL = re.compile(r"[a-z][a-z0-9_]*")

LATENCY = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of histograms of short durations, in seconds."""
WAITS = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
"""Bounds of histograms of waits, in seconds."""


class MetricKind(StrEnum):
    COUNTER = "counter"
    """Only grows. Its name ends with `_total`."""
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    """What a value counts; the name of a metric ends with its unit."""

    SECONDS = "seconds"
    BYTES = "bytes"
    NONE = ""
    """The things that the name says: jobs, slots, rows."""


class Where(StrEnum):
    """The processes that have a metric."""

    ALL = "every process"
    MASTER = "every master"
    LEADER = "the leading master"
    EXECUTOR = "task executors"


@dataclass(frozen=True, kw_only=True)
class MetricDefinition:
    name: str
    kind: MetricKind
    help: str
    where: Where
    unit: Unit = Unit.NONE
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, ascending, without the infinite one."""

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise ValueError(f"metric {self.name}: {problem}")

    def _problem(self) -> str | None:
        bare = self.name.removesuffix("_total")
        if not _NAME.fullmatch(self.name):
            return "the name is not in snake case"
        if not all(_LABEL.fullmatch(label) for label in self.labels) or "le" in self.labels:
            return "a label cannot be used"
        if (self.kind is MetricKind.COUNTER) is not self.name.endswith("_total"):
            return "a counter, and nothing else, ends with _total"
        if self.unit and not bare.endswith(f"_{self.unit}"):
            return f"the name does not say its unit, {self.unit}"
        if (self.kind is MetricKind.HISTOGRAM) is not bool(self.bounds):
            return "a histogram, and nothing else, has bounds"
        if list(self.bounds) != sorted(set(self.bounds)):
            return "the bounds do not ascend"
        return None


class Catalogue:
    """All metrics that a process may expose, in the order of the reference page."""

    def __init__(self) -> None:
        self._by_name: dict[str, MetricDefinition] = {}

    def add(self, definition: MetricDefinition) -> MetricDefinition:
        if definition.name in self._by_name:
            raise ValueError(f"metric {definition.name} is defined twice")
        self._by_name[definition.name] = definition
        return definition

    def get(self, name: str) -> MetricDefinition | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[MetricDefinition]:
        return iter(self._by_name.values())
