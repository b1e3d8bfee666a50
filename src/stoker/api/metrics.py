"""Answers about metrics, in the form of Flink's REST API."""

import msgspec

from stoker.api.shape import Answer


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
