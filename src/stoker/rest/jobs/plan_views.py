"""The plan of a job in the form of Flink's API: nodes with their inputs, the sinks first."""

import html

import msgspec

from stoker.api.jobs import JobPlan, PlanInput, PlanNode
from stoker.core.description import plan_of as vertices_of
from stoker.core.graph import JobGraph
from stoker.core.ids import AttemptId, vertex_hex_id
from stoker.core.regions import regions_of
from stoker.core.results import AttemptDetails, JobDetails, PlanVertex, RegionDetails
from stoker.core.states import ExecutionState, JobStatus
from stoker.rest.programs.parts import with_parts
from stoker.security.redaction import without_secrets


def plan_of(job: JobDetails) -> JobPlan:
    job = without_secrets(with_parts(job))
    return JobPlan(
        jid=job.job_id,
        name=job.name,
        type=job.job_type,
        nodes=[_node(job, vertex) for vertex in reversed(job.plan)],
    )


def plan_of_graph(graph: JobGraph) -> JobPlan:
    """Plan of a job that was not submitted: none of its regions has started."""
    regions = tuple(
        RegionDetails(
            id=region.id,
            vertices=region.vertices,
            streaming=region.streaming,
            current=AttemptDetails(attempt=AttemptId(""), number=0, state=ExecutionState.CREATED),
        )
        for region in regions_of(graph)
    )
    return plan_of(
        JobDetails(
            job_id=graph.job_id,
            name=graph.name,
            job_type=graph.job_type,
            status=JobStatus.INITIALIZING,
            timestamps={},
            start=0,
            regions=regions,
            plan=vertices_of(graph),
            configuration=graph.configuration,
            parameters=graph.parameters,
        )
    )


def _node(job: JobDetails, vertex: PlanVertex) -> PlanNode:
    inputs = [_input(job, number, name) for number, name in enumerate(vertex.inputs)]
    return PlanNode(
        id=vertex_hex_id(job.job_id, vertex.name),
        parallelism=max(1, sum(vertex.name in region.vertices for region in job.regions)),
        description=_description(vertex),
        inputs=inputs or msgspec.UNSET,
    )


def _input(job: JobDetails, number: int, name: str) -> PlanInput:
    # Only a materialized vertex is both the end of a region and read by another vertex.
    materialized = any(region.id == name for region in job.regions)
    return PlanInput(
        id=vertex_hex_id(job.job_id, name),
        num=number,
        exchange="blocking" if materialized else "pipelined_bounded",
        ship_strategy="FORWARD",
    )


def _description(vertex: PlanVertex) -> str:
    lines = [f"{vertex.kind.capitalize()}: {vertex.name}"]
    if vertex.description:
        lines.append(f"+- {vertex.description}")
    return "".join(f"{html.escape(line)}<br/>" for line in lines)
