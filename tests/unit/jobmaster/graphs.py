"""Execution graphs for tests, and the events that tests send them."""

import random
from typing import Any

from stoker.core.graph import FormatRead, FormatWrite, JobGraph, RestartPolicy, Sink, Source
from stoker.core.ids import AllocationId, AttemptId, Ids, InstanceId, JobId, RegionId, ResourceId
from stoker.core.results import AttemptOutcome, Failure
from stoker.core.states import ExecutionState
from stoker.jobmaster.attempts import (
    Command,
    Deploy,
    PreviousAttempt,
    SlotHandle,
)
from stoker.jobmaster.execution_graph import ExecutionGraph

JOB = JobId("a" * 32)
BOOM = Failure(error="Boom", message="it went wrong")
HOPELESS = Failure(error="Missing", message="no such column", retriable=False)


def graph_with_sinks(*sinks: str, streaming: bool = False, materialized: bool = False) -> JobGraph:
    source = Source(
        name="numbers",
        read=FormatRead(format="rate"),
        streaming=streaming,
        materialized=materialized,
    )
    trigger = "1 second" if streaming else None
    return JobGraph(
        job_id=JOB,
        name="test",
        vertices=(
            source,
            *(
                Sink(name=name, input="numbers", write=FormatWrite(format="noop"), trigger=trigger)
                for name in sinks
            ),
        ),
    )


def execution(graph: JobGraph, policy: RestartPolicy | None = None, **more: Any) -> ExecutionGraph:
    return ExecutionGraph(
        graph,
        ids=Ids(random.Random(1)),
        policy=policy or RestartPolicy(),
        submitted_at=1,
        now=2,
        **more,
    )


def slot(number: int, executor: str = "te") -> SlotHandle:
    return SlotHandle(
        allocation=AllocationId(f"slot-{number}"),
        resource_id=ResourceId(executor),
        instance=InstanceId(f"{executor}-1"),
    )


def ended(deploy: Deploy, state: ExecutionState, failure: Failure | None = None) -> AttemptOutcome:
    return AttemptOutcome(
        job_id=JOB, region=deploy.region, attempt=deploy.attempt, state=state, at=9, failure=failure
    )


def executor_lost(job: ExecutionGraph, instance: InstanceId, now: int) -> list[Command]:
    job.slots_gone(instance)
    commands: list[Command] = []
    for attempt in job.attempts_on(instance):
        commands += job.attempt_failed(attempt.id, BOOM, now)
    return commands


def deployments(commands: list[Command]) -> list[Deploy]:
    return [command for command in commands if isinstance(command, Deploy)]


def started(
    graph: JobGraph, policy: RestartPolicy | None = None, slots: int = 1, **more: Any
) -> tuple[ExecutionGraph, list[Deploy]]:
    job = execution(graph, policy, **more)
    job.start({}, cancel_wanted=False, now=3)
    _, commands = job.slots_offered([slot(number) for number in range(slots)], 4)
    return job, deployments(commands)


def previous(state: ExecutionState | None = None) -> dict[RegionId, PreviousAttempt]:
    attempt = AttemptId("e" * 32)
    outcome = None
    if state is not None:
        outcome = AttemptOutcome(
            job_id=JOB, region=RegionId("out"), attempt=attempt, state=state, at=1, failure=BOOM
        )
    return {
        RegionId("out"): PreviousAttempt(attempt=attempt, number=3, slot=slot(0), outcome=outcome)
    }
