"""Options of metrics."""

from dataclasses import dataclass

from stoker.core.options import option


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    enabled: bool = option(
        "metrics.enabled",
        "Whether the process measures what it does. Without it, /metrics shows nothing.",
        True,
    )
