"""Every answer has the fields and types of Flink's REST API, with and without /v1."""

from typing import Any

import pytest

from contract import flink_shapes as shapes
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import CANCELED, EXECUTOR, FAILED, FINISHED, RUNNING, UNKNOWN

ALL_JOBS = (RUNNING, FINISHED, FAILED, CANCELED)
JOB_SHAPES = {
    "": shapes.JOB,
    "/status": shapes.STATUS,
    "/execution-result": shapes.EXECUTION_RESULT,
    "/plan": {"plan": shapes.PLAN},
    "/exceptions": shapes.EXCEPTIONS,
    "/config": shapes.JOB_CONFIG,
}
CLUSTER_SHAPES = {
    "/jobs": shapes.JOBS,
    "/jobs/overview": shapes.JOBS_OVERVIEW,
    "/overview": shapes.OVERVIEW,
    "/config": shapes.CONFIG,
    "/taskmanagers": shapes.TASK_MANAGERS,
    f"/taskmanagers/{EXECUTOR}": shapes.TASK_MANAGER_DETAILS,
}


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(("path", "shape"), CLUSTER_SHAPES.items())
async def test_an_answer_about_the_cluster_has_flinks_shape(
    prefix: str, path: str, shape: Any
) -> None:
    """It is the same with and without the prefix /v1 (REST-05)."""
    async with Master().in_process() as http:
        answer = await http.get(prefix + path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/json")
    assert shapes.differences(answer.json(), shape) == []


@pytest.mark.parametrize("job_id", ALL_JOBS)
@pytest.mark.parametrize(("path", "shape"), JOB_SHAPES.items())
async def test_an_answer_about_a_job_has_flinks_shape(job_id: str, path: str, shape: Any) -> None:
    """This also holds for jobs that have ended (REST-13)."""
    async with Master().in_process() as http:
        answer = await http.get(f"/jobs/{job_id}{path}")
    assert answer.status_code == 200
    assert shapes.differences(answer.json(), shape) == []


@pytest.mark.parametrize("path", JOB_SHAPES)
@pytest.mark.parametrize(("job_id", "status"), [(UNKNOWN, 404), ("xyz", 400), ("1" * 31, 400)])
async def test_an_unknown_job_is_404_and_a_malformed_id_400(
    path: str, job_id: str, status: int
) -> None:
    """The error quotes the id (REST-03)."""
    async with Master().in_process() as http:
        answer = await http.get(f"/jobs/{job_id}{path}")
    assert answer.status_code == status
    assert shapes.differences(answer.json(), shapes.ERRORS) == []
    assert job_id in answer.json()["errors"][0]


@pytest.mark.parametrize(
    "path", [*CLUSTER_SHAPES, *(f"/jobs/{RUNNING}{each}" for each in JOB_SHAPES)]
)
async def test_a_get_with_an_empty_object_as_body_is_served(path: str) -> None:
    """Flink's command line sends such a body."""
    async with Master().in_process() as http:
        answer = await http.request("GET", path, json={})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("value", "shape", "faults"),
    [
        ({"a": 1}, {"a": int}, 0),
        ({"a": True}, {"a": int}, 1),
        ({"b": 1}, {"a": int}, 2),
        ({}, {"a": shapes.Maybe(int)}, 0),
        ([1, "x"], [int], 1),
        ({"k": 1}, shapes.Each(str), 1),
    ],
)
def test_the_comparison_of_shapes_finds_every_difference(
    value: Any, shape: Any, faults: int
) -> None:
    assert len(shapes.differences(value, shape)) == faults
