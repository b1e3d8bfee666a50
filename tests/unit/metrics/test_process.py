"""The figures of a process, its event loop and its operations."""

import asyncio
import os
import time

import pytest

from builders import virtual
from stoker.core.errors import NotFound, StorageUnavailable
from stoker.metrics.catalogue import LOOP_LAG, STORAGE_DURATION, STORAGE_ERRORS
from stoker.metrics.loop_lag import INTERVAL_SECONDS, measure_loop_lag
from stoker.metrics.operations import OperationMetrics
from stoker.metrics.process import age_seconds, measure_process
from stoker.metrics.registry import MetricRegistry
from unit.metrics.readings import values


def test_a_process_shows_what_it_uses_and_which_version_it_runs() -> None:
    registry = MetricRegistry()
    measure_process(registry.process, version="1.2", component="master", resource_id="master-1")
    shown = values(registry)
    assert shown["stoker_build_info", "1.2", "master", "master-1"] == 1.0
    assert shown[("process_resident_memory_bytes",)] > 1_000_000
    assert shown[("process_open_fds",)] >= 3
    assert shown[("process_threads",)] >= 1
    assert 0 < shown[("process_cpu_seconds_total",)] <= time.process_time()
    assert shown[("process_start_time_seconds",)] <= time.time()
    assert ("python_gc_collections_total", "2") in shown


def test_the_age_of_a_process_grows() -> None:
    assert 0 <= age_seconds() < os.times().elapsed


@virtual
async def test_a_call_that_blocks_the_loop_is_seen_as_lag() -> None:
    registry = MetricRegistry(now=asyncio.get_running_loop().time)
    measuring = asyncio.create_task(measure_loop_lag(registry.process))
    await asyncio.sleep(2.2 * INTERVAL_SECONDS)
    measuring.cancel()
    await asyncio.gather(measuring, return_exceptions=True)
    (family,) = registry.collect()
    assert family.name == LOOP_LAG.name
    assert family.samples[0].count == 2


@virtual
async def test_an_operation_has_a_duration_or_an_error_and_an_answer_is_no_error() -> None:
    registry = MetricRegistry(now=asyncio.get_running_loop().time)
    operations = OperationMetrics(
        registry.process, STORAGE_DURATION, STORAGE_ERRORS, failures=(StorageUnavailable,)
    )

    async def answer(error: Exception | None) -> int:
        await asyncio.sleep(3)
        if error is not None:
            raise error
        return 7

    assert await operations.measure("read", lambda: answer(None)) == 7
    with pytest.raises(NotFound):
        await operations.measure("read", lambda: answer(NotFound("no file")))
    with pytest.raises(StorageUnavailable):
        await operations.measure("write", lambda: answer(StorageUnavailable("away")))
    assert values(registry) == {
        (STORAGE_DURATION.name, "read"): 6.0,
        (STORAGE_ERRORS.name, "write", "StorageUnavailable"): 1.0,
    }
