"""Options of metrics."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.options import option

PORT_OFF = "off"


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    enabled: bool = option(
        "metrics.enabled",
        "Whether the process measures what it does. Without it, /metrics shows nothing.",
        True,
    )
    fetcher_interval: timedelta = option(
        "metrics.fetcher.update-interval",
        "How old the metrics of task executors may be that the REST API shows; 0: it shows none.",
        timedelta(seconds=10),
    )
    port: str = option(
        "metrics.port",
        "Where a task executor answers /metrics over HTTP: a port, list or range, 0 for any free "
        "port, or off. Masters answer at their REST port.",
        PORT_OFF,
    )
    bind_address: str = option(
        "metrics.bind-address",
        "Address that a task executor answers /metrics at. Any other than loopback needs "
        "security.rest.tokens, as REST does.",
        "127.0.0.1",
    )
    address: str | None = option(
        "metrics.address",
        "Name or address at which Prometheus reaches a task executor; unset: the bind address. "
        "Required when that is a wildcard such as 0.0.0.0.",
        None,
    )
