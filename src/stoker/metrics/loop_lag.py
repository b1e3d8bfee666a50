"""How late the event loop is: one call that blocks it delays leases and heartbeats of all jobs."""

import asyncio

from stoker.metrics.catalogue import LOOP_LAG
from stoker.metrics.registry import MetricGroup

INTERVAL_SECONDS = 0.5


async def measure_loop_lag(metrics: MetricGroup) -> None:
    """Measure until cancelled."""
    lag = metrics.histogram(LOOP_LAG)
    while True:
        due = metrics.now() + INTERVAL_SECONDS
        await asyncio.sleep(INTERVAL_SECONDS)
        lag.observe(max(0.0, metrics.now() - due))
