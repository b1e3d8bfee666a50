"""Answers about the checkpoints of a streaming job."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import virtual, wait_until_quiet
from stoker.core.ids import vertex_hex_id
from stoker.core.results import JobDetails, Progress
from stoker.core.states import ExecutionState
from stoker.rest.jobs.aggregation import quantile, summary_of
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import FINISHED, START, STREAM, streaming_details

CHECKPOINTS = f"/jobs/{STREAM}/checkpoints"
NUMBERS = {(entry.region, entry.at): entry.id for entry in streaming_details().checkpoints.history}
"""Ids of checkpoints by the region of the query and the time of the batch."""
OF_BIG, OF_SMALL = NUMBERS["big", START + 6000], NUMBERS["small", START + 6000]
ORDERS, BIG, SMALL = (vertex_hex_id(STREAM, name) for name in ("orders", "big", "small"))


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    master = Master()
    master.dispatcher.jobs[STREAM] = streaming_details()
    async with master.in_process() as http:
        yield http


async def get(http: httpx.AsyncClient, path: str) -> Any:
    answer = await http.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_checkpoint_counts_come_from_the_jobs_master(http: httpx.AsyncClient) -> None:
    """Restores are counted from a savepoint and after the restart of a query (DISP-20)."""
    counts = (await get(http, CHECKPOINTS))["counts"]
    assert counts == {"restored": 3, "total": 9, "in_progress": 1, "completed": 7, "failed": 1}


async def test_the_latest_checkpoint_of_each_kind_is_in_the_answer(http: httpx.AsyncClient) -> None:
    latest = (await get(http, CHECKPOINTS))["latest"]
    assert latest["completed"]["checkpoint_type"] == "CHECKPOINT"
    assert latest["completed"]["id"] == 16
    assert latest["savepoint"]["external_path"] == "/saved/one"
    assert latest["savepoint"]["savepointFormat"] == "NATIVE"
    assert latest["savepoint"]["end_to_end_duration"] == 500
    assert latest["failed"]["failure_message"] == "the disk is full"
    assert latest["failed"]["failure_timestamp"] == START + 9100
    assert latest["restored"] == {
        "id": 4,
        "restore_timestamp": START,
        "is_savepoint": True,
        "external_path": "/saved/zero",
    }


async def test_the_history_has_time_duration_and_size_of_each_checkpoint(
    http: httpx.AsyncClient,
) -> None:
    history = (await get(http, CHECKPOINTS))["history"]
    assert [each["className"] for each in history[:3]] == ["in_progress", "failed", "completed"]
    assert history[0]["checkpoint_type"] == "SYNC_SAVEPOINT"
    assert history[0]["latest_ack_timestamp"] == -1
    assert "external_path" not in history[0]
    batch = next(each for each in history if each["id"] == NUMBERS["big", START + 7000])
    assert batch["trigger_timestamp"] == START + 7000
    assert batch["end_to_end_duration"] == 700
    assert batch["state_size"] == 7000
    assert batch["num_subtasks"] == batch["num_acknowledged_subtasks"] == 2


async def test_the_summary_covers_the_completed_checkpoints(http: httpx.AsyncClient) -> None:
    summary = (await get(http, CHECKPOINTS))["summary"]
    assert summary["end_to_end_duration"]["min"] == 500
    assert summary["end_to_end_duration"]["max"] == 700
    assert summary["state_size"]["max"] == 7000
    assert summary["state_size"]["p999"] == 7000.0


async def test_the_answer_about_one_checkpoint_includes_its_vertices(
    http: httpx.AsyncClient,
) -> None:
    found = await get(http, f"{CHECKPOINTS}/details/{OF_BIG}")
    assert found["tasks"].keys() == {ORDERS, BIG}
    assert found["tasks"][BIG]["state_size"] == found["state_size"] == 6000
    assert found["tasks"][ORDERS]["state_size"] == 0


async def test_a_savepoint_includes_every_vertex(http: httpx.AsyncClient) -> None:
    latest = (await get(http, CHECKPOINTS))["latest"]["failed"]
    found = await get(http, f"{CHECKPOINTS}/details/{latest['id']}")
    assert found["is_savepoint"] is True
    assert found["tasks"].keys() == {ORDERS, BIG, SMALL}
    assert found["tasks"][ORDERS]["num_subtasks"] == 2


async def test_the_checkpoint_of_a_vertex_has_a_subtask_for_each_region(
    http: httpx.AsyncClient,
) -> None:
    found = await get(http, f"{CHECKPOINTS}/details/{OF_BIG}/subtasks/{BIG}")
    [subtask] = found["subtasks"]
    assert subtask["checkpoint"] == {"sync": 50, "async": 0}
    assert subtask["start_delay"] == 7
    assert subtask["state_size"] == 6000
    assert found["summary"]["checkpoint_duration"]["sync"]["max"] == 50


async def test_the_regions_of_a_shared_vertex_keep_their_subtask_numbers(
    http: httpx.AsyncClient,
) -> None:
    found = await get(http, f"{CHECKPOINTS}/details/{OF_SMALL}/subtasks/{ORDERS}")
    assert [each["index"] for each in found["subtasks"]] == [1]


def with_queries(**queries: tuple[ExecutionState, int | None]) -> JobDetails:
    """The streaming job, with the state and the last batch of each of its queries."""
    job = streaming_details()
    regions = tuple(
        msgspec.structs.replace(
            region,
            current=msgspec.structs.replace(
                region.current, state=state, progress=Progress(batch_id=batch)
            ),
        )
        for region in job.regions
        for state, batch in [queries[region.id]]
    )
    return msgspec.structs.replace(job, regions=regions)


ENDED, RUNS = ExecutionState.FINISHED, ExecutionState.RUNNING


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [
                ({"big": (RUNS, 7), "small": (RUNS, 40)}, False),
                ({"big": (RUNS, None), "small": (RUNS, 40)}, False),
                ({"big": (RUNS, 8), "small": (RUNS, 40)}, False),
                ({"big": (RUNS, 8), "small": (RUNS, 41)}, True),
            ],
            id="each query commits a batch, even if it restarts",
        ),
        pytest.param(
            [
                ({"big": (ENDED, 7), "small": (RUNS, 40)}, False),
                ({"big": (ENDED, 7), "small": (RUNS, 41)}, True),
            ],
            id="a query that has ended is not waited for",
        ),
        pytest.param(
            [
                ({"big": (RUNS, 7), "small": (RUNS, 40)}, False),
                ({"big": (ENDED, 7), "small": (RUNS, 40)}, False),
                ({"big": (ENDED, 7), "small": (RUNS, 41)}, True),
            ],
            id="the end of a query is no checkpoint",
        ),
    ],
)
@virtual
async def test_a_triggered_checkpoint_ends_with_the_next_batch_of_each_query_that_runs(
    steps: list[tuple[dict[str, tuple[ExecutionState, int | None]], bool]],
) -> None:
    master, trigger = Master(), "7" * 32
    master.dispatcher.jobs[STREAM] = with_queries(**steps[0][0])
    async with master.in_process() as http:
        await http.post(CHECKPOINTS, json={"triggerId": trigger})
        for queries, is_completed in steps:
            master.dispatcher.jobs[STREAM] = with_queries(**queries)
            await wait_until_quiet()
            status = (await get(http, f"{CHECKPOINTS}/{trigger}"))["status"]["id"]
            assert status == ("COMPLETED" if is_completed else "IN_PROGRESS")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/details/9999", 404),
        ("/details/x", 400),
        (f"/details/{OF_BIG}/subtasks/{SMALL}", 404),
        (f"/details/{OF_BIG}/subtasks/{'0' * 32}", 404),
        (f"/details/9999/subtasks/{BIG}", 404),
    ],
)
async def test_an_unknown_or_malformed_checkpoint_or_vertex_is_refused(
    http: httpx.AsyncClient, path: str, status: int
) -> None:
    assert (await http.get(CHECKPOINTS + path)).status_code == status


async def test_a_batch_job_has_no_checkpoints(http: httpx.AsyncClient) -> None:
    for path in ("", "/config", "/details/1", f"/details/1/subtasks/{BIG}"):
        assert (await http.get(f"/jobs/{FINISHED}/checkpoints{path}")).status_code == 404


async def test_the_checkpoint_config_says_what_is_retained_after_a_job(
    http: httpx.AsyncClient,
) -> None:
    found = await get(http, f"{CHECKPOINTS}/config")
    assert found["timeout"] == 600_000
    assert found["externalization"] == {"enabled": True, "delete_on_cancellation": False}


async def test_figures_of_spark_appear_as_metrics(http: httpx.AsyncClient) -> None:
    path = f"/jobs/{STREAM}/metrics?get=sparkRowsPerSecond,sparkBatchDuration,sparkStateBytes"
    figures = {each["id"]: each["value"] for each in await get(http, path)}
    assert figures == {
        "sparkRowsPerSecond": "25.0",
        "sparkBatchDuration": "700",
        "sparkStateBytes": "7000",
    }
    path = f"/jobs/{STREAM}/vertices/{BIG}/subtasks/0/metrics"
    names = {each["id"] for each in await get(http, path)}
    assert names >= {"sparkBatchRows", "sparkStateRows", "sparkBatchPhase.addBatch"}


async def test_watermarks_appear_where_spark_reports_them(http: httpx.AsyncClient) -> None:
    expected = [{"id": "0.currentInputWatermark", "value": "1790000000000"}]
    vertices = f"/jobs/{STREAM}/vertices"
    assert await get(http, f"{vertices}/{BIG}/watermarks") == expected
    assert await get(http, f"{vertices}/{ORDERS}/watermarks") == expected
    assert await get(http, f"{vertices}/{SMALL}/watermarks") == []


def test_quantiles_are_interpolated_as_in_flink() -> None:
    values = sorted([23, 34, 30, 42, 45, 42, 50, 98, 151, 259])
    assert quantile(values, 0.9) == pytest.approx(151 + 0.9 * (259 - 151))
    assert quantile(values, 0.999) == 259


@given(st.lists(st.integers(0, 2**50), min_size=1))
def test_a_summary_lies_between_its_bounds(values: list[int]) -> None:
    found = summary_of(values)
    parts = [found.p50, found.p90, found.p95, found.p99, found.p999]
    assert found.min <= found.avg <= found.max
    assert parts == sorted(parts)  # type: ignore[type-var]
    assert all(found.min <= each <= found.max for each in parts)  # type: ignore[operator]


def test_an_empty_summary_has_no_quantiles() -> None:
    assert summary_of([]).p50 == "NaN"
