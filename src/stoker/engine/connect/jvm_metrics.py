"""What the JVM of the Spark server uses, from the metrics on Spark's own page."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from stoker.core.values import Value
from stoker.engine.connect.server import SparkServer
from stoker.engine.connect.supervised import Supervised
from stoker.engine.contract import JvmFigures
from stoker.engine.spark_page import open_page

INTERVAL_SECONDS = 10.0
_ANSWER_SECONDS = 5.0
_PATH = "/metrics/json"
_HEAP = ("used", "committed", "max")


class _Gauge(Value):
    value: Any = None


class _Answer(Value):
    gauges: dict[str, _Gauge] = {}


def jvm_figures(answer: object) -> JvmFigures:
    """The figures in an answer of Spark's metrics servlet; what is not there is left out.

    A name begins with the id of the application and the role, as in
    `local-1795.driver.jvm.heap.used`.
    """
    try:
        gauges = msgspec.convert(answer, _Answer).gauges
    except msgspec.ValidationError:
        return JvmFigures()
    known: dict[str, float] = {}
    for name, gauge in gauges.items():
        _, _, own_name = name.partition(".driver.")
        if isinstance(gauge.value, int | float):
            known[own_name] = float(gauge.value)
    cpu = known.get("JVMCPU.jvmCpuTime")
    heap = {kind: known.get(f"jvm.heap.{kind}") for kind in _HEAP}
    return JvmFigures(
        heap_bytes={kind: value for kind, value in heap.items() if value is not None},
        gc_seconds=_collectors(known),
        cpu_seconds=None if cpu is None else cpu / 1e9,
    )


def _collectors(known: Mapping[str, float]) -> dict[str, float]:
    """Seconds by collector, from names such as `jvm.G1-Young-Generation.time`."""
    return {
        name.removeprefix("jvm.").removesuffix(".time"): milliseconds / 1000
        for name, milliseconds in known.items()
        if name.startswith("jvm.") and name.endswith(".time") and name.count(".") == 2
    }


class JvmSampler:
    """Asks the present server again and again, and remembers its last answer."""

    def __init__(self, server: Supervised[SparkServer]) -> None:
        self._server = server
        self.figures = JvmFigures()
        """Empty while no server answers."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            self.figures = await self._sample()

    async def _sample(self) -> JvmFigures:
        server = self._server.current
        if server is None or not server.ui:
            return JvmFigures()
        url = urlunsplit(urlsplit(server.ui)._replace(path=_PATH))
        try:
            return jvm_figures(await asyncio.to_thread(open_page, url, seconds=_ANSWER_SECONDS))
        except (OSError, ValueError):
            return JvmFigures()
