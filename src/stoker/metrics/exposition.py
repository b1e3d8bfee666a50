"""The text that Prometheus reads. The only module that knows Prometheus's library."""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from stoker.metrics.catalogue import CATALOGUE
from stoker.metrics.definitions import MetricDefinition, MetricKind
from stoker.metrics.registry import MetricFamily, MetricSample

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(families: Sequence[MetricFamily]) -> bytes:
    """Thousands of series take a while: call it in a thread."""
    return generate_latest(_Families(families))


class _Families(Collector):
    def __init__(self, families: Sequence[MetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            definition = CATALOGUE.get(family.name)
            if definition is not None:
                yield _metric(definition, family.samples)


def _metric(definition: MetricDefinition, samples: Iterable[MetricSample]) -> Metric:
    metric = Metric(definition.name.removesuffix("_total"), definition.help, definition.kind)
    for sample in samples:
        labels = dict(zip(definition.labels, sample.labels, strict=True))
        if definition.kind is MetricKind.HISTOGRAM:
            _add_histogram(metric, definition, sample, labels)
        else:
            metric.add_sample(definition.name, labels, sample.value)
    return metric


def _add_histogram(
    metric: Metric, definition: MetricDefinition, sample: MetricSample, labels: dict[str, str]
) -> None:
    below = 0
    for bound, count in zip((*definition.bounds, "+Inf"), sample.buckets, strict=True):
        below += count
        metric.add_sample(f"{definition.name}_bucket", {**labels, "le": str(bound)}, below)
    metric.add_sample(f"{definition.name}_count", labels, below)
    metric.add_sample(f"{definition.name}_sum", labels, sample.value)
