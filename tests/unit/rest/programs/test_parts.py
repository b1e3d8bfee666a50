"""Spark jobs and streaming queries of a program, as vertices of its job."""

import pytest

from stoker.core.errors import NotFound
from stoker.core.graph import JobType
from stoker.core.ids import AttemptId, JobId, RegionId, vertex_hex_id
from stoker.core.results import (
    AttemptDetails,
    JobDetails,
    PlanVertex,
    Progress,
    ProgressPart,
    RegionDetails,
)
from stoker.core.states import ExecutionState, JobStatus
from stoker.rest.jobs.lookup import find_vertex
from stoker.rest.jobs.plan_views import plan_of
from stoker.rest.jobs.vertex_views import vertices_of
from stoker.rest.programs.parts import with_parts

JOB = JobId("a" * 32)
COUNT = ProgressPart(
    id="job-3",
    name="count at words.py:9",
    kind="spark-job",
    state="SUCCEEDED",
    tasks_total=4,
    tasks_done=4,
)
STREAM = ProgressPart(id="11-22", name="rates", kind="streaming-query", state="RUNNING", batch_id=7)


def program(*parts: ProgressPart, state: ExecutionState = ExecutionState.RUNNING) -> JobDetails:
    attempt = AttemptDetails(
        attempt=AttemptId("b" * 32),
        number=0,
        state=state,
        timestamps={ExecutionState.DEPLOYING: 100},
        progress=Progress(tasks_total=4, tasks_done=4, parts=parts),
    )
    return JobDetails(
        job_id=JOB,
        name="words",
        job_type=JobType.BATCH,
        status=JobStatus.RUNNING,
        timestamps={},
        start=0,
        plan=(PlanVertex(name="program", kind="program"),),
        regions=(
            RegionDetails(
                id=RegionId("program"), vertices=("program",), streaming=False, current=attempt
            ),
        ),
    )


def test_a_program_without_reported_parts_is_shown_unchanged() -> None:
    job = program()
    assert with_parts(job) is job


def test_each_spark_job_and_query_is_a_vertex_with_its_own_state() -> None:
    own, count, stream = vertices_of(program(COUNT, STREAM), now=200)
    assert (own.name, own.status) == ("program", ExecutionState.RUNNING)
    assert (count.name, count.status) == ("count at words.py:9 (job-3)", ExecutionState.FINISHED)
    assert (stream.name, stream.status) == ("rates (11-22)", ExecutionState.RUNNING)
    assert (stream.start_time, stream.duration) == (-1, -1)


def test_the_plan_has_the_same_vertices_as_the_job() -> None:
    job = program(COUNT, STREAM)
    assert {node.id for node in plan_of(job).nodes} == {each.id for each in vertices_of(job, 200)}


def test_a_part_that_ran_when_its_program_ended_has_ended_with_it() -> None:
    _, stream = vertices_of(program(STREAM, state=ExecutionState.CANCELED), now=200)
    assert stream.status is ExecutionState.CANCELED


def test_the_vertex_of_a_part_is_found_by_its_id() -> None:
    job = program(COUNT)
    found = find_vertex(job, vertex_hex_id(JOB, "count at words.py:9 (job-3)"))
    assert found.regions[0].current.progress.tasks_done == 4
    with pytest.raises(NotFound):
        find_vertex(program(), found.id)
