"""Answers about metrics, in the form of Flink's REST API."""

import msgspec

from stoker.api.shape import Answer, Camel, Dashed


class Metric(Answer, frozen=True, kw_only=True):
    """A metric; without its value when the client asked for no names."""

    id: str
    value: str | msgspec.UnsetType = msgspec.UNSET


class AggregatedMetric(Answer, frozen=True, kw_only=True):
    id: str
    min: float | msgspec.UnsetType = msgspec.UNSET
    max: float | msgspec.UnsetType = msgspec.UNSET
    avg: float | msgspec.UnsetType = msgspec.UNSET
    sum: float | msgspec.UnsetType = msgspec.UNSET
    skew: float | msgspec.UnsetType = msgspec.UNSET


class ScrapeTarget(Answer, frozen=True, kw_only=True):
    """An item of GET /metrics/targets, in the form of Prometheus's HTTP service discovery."""

    targets: list[str]
    labels: dict[str, str]


class VertexMetrics(Dashed, frozen=True, kw_only=True):
    """Data that a vertex has read and written. `…_complete` is false if Spark gives no number."""

    read_bytes: int = 0
    read_bytes_complete: bool = False
    write_bytes: int = 0
    write_bytes_complete: bool = False
    read_records: int = 0
    read_records_complete: bool = False
    write_records: int = 0
    write_records_complete: bool = False
    accumulated_backpressured_time: int = 0
    accumulated_idle_time: int = 0
    accumulated_busy_time: float = 0.0


Aggregates = dict[str, dict[str, int]]
"""For each metric: min, max, avg, sum, median, p25, p75, p95."""


class VertexAggregates(Dashed, frozen=True, kw_only=True):
    metrics: Aggregates
    status_duration: Aggregates


class GarbageCollector(Answer, frozen=True, kw_only=True):
    name: str
    count: int
    time: int


class TaskManagerMetrics(Camel, frozen=True, kw_only=True):
    """Metrics of the process; 0 for those that are not measured."""

    heap_used: int = 0
    heap_committed: int = 0
    heap_max: int = 0
    non_heap_used: int = 0
    non_heap_committed: int = 0
    non_heap_max: int = 0
    direct_count: int = 0
    direct_used: int = 0
    direct_max: int = 0
    mapped_count: int = 0
    mapped_used: int = 0
    mapped_max: int = 0
    netty_shuffle_memory_segments_available: int = 0
    netty_shuffle_memory_segments_used: int = 0
    netty_shuffle_memory_segments_total: int = 0
    netty_shuffle_memory_available: int = 0
    netty_shuffle_memory_used: int = 0
    netty_shuffle_memory_total: int = 0
    garbage_collectors: list[GarbageCollector] = []
