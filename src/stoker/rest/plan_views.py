"""A job's plan, in the form of Flink's API: nodes with their inputs, the sinks first."""

import html

import msgspec

from stoker.api.jobs import Plan, PlanAnswer, PlanInput, PlanNode
from stoker.core.ids import vertex_hex_id
from stoker.core.results import JobDetails, PlanVertex


def plan_answer(job: JobDetails) -> PlanAnswer:
    return PlanAnswer(plan=plan_of(job))


def plan_of(job: JobDetails) -> Plan:
    return Plan(
        jid=job.job_id,
        name=job.name,
        type=job.job_type,
        nodes=[_node(job, vertex) for vertex in reversed(job.plan)],
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
