"""What Spark's metrics servlet says about its JVM."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.connect.jvm_metrics import jvm_figures
from stoker.engine.contract import JvmFigures

ANSWER = {
    "version": "4.0.0",
    "gauges": {
        "local-1795134431269.driver.jvm.heap.used": {"value": 100},
        "local-1795134431269.driver.jvm.heap.committed": {"value": 200},
        "local-1795134431269.driver.jvm.heap.max": {"value": 300},
        "local-1795134431269.driver.jvm.heap.usage": {"value": 0.3},
        "local-1795134431269.driver.jvm.G1-Young-Generation.time": {"value": 1500},
        "local-1795134431269.driver.jvm.G1-Young-Generation.count": {"value": 3},
        "local-1795134431269.driver.jvm.pools.G1-Eden-Space.used": {"value": 7},
        "local-1795134431269.driver.JVMCPU.jvmCpuTime": {"value": 11500000000},
        "local-1795134431269.driver.odd": {"value": "text"},
    },
    "counters": {},
}


def test_heap_processor_time_and_time_of_each_collector_are_read() -> None:
    assert jvm_figures(ANSWER) == JvmFigures(
        heap_bytes={"used": 100, "committed": 200, "max": 300},
        gc_seconds={"G1-Young-Generation": 1.5},
        cpu_seconds=11.5,
    )


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"gauges": 3}, {"gauges": {"a": {"value": None}}}]
)
def test_an_answer_without_these_figures_is_no_error(answer: Any) -> None:
    assert jvm_figures(answer) == JvmFigures()


@given(
    st.dictionaries(
        st.text(), st.dictionaries(st.text(), st.integers() | st.text() | st.none()), max_size=5
    )
)
def test_no_answer_is_an_error(gauges: dict[str, Any]) -> None:
    jvm_figures({"gauges": gauges})
