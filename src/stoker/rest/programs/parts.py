"""The Spark jobs and queries that a program has started, shown as vertices of its job.

A program decides while it runs what it starts, so these parts are not in the plan that was
submitted. They are added to an answer from the progress that the program's region reports.
"""

from collections.abc import Iterator

import msgspec

from stoker.core.ids import RegionId
from stoker.core.results import (
    AttemptDetails,
    JobDetails,
    PlanVertex,
    Progress,
    ProgressPart,
    RegionDetails,
)
from stoker.core.states import ExecutionState

_STATES = {
    "RUNNING": ExecutionState.RUNNING,
    "SUCCEEDED": ExecutionState.FINISHED,
    "FAILED": ExecutionState.FAILED,
}
_STREAM = "streaming-query"


def with_parts(job: JobDetails) -> JobDetails:
    """Add a vertex and a region for each Spark job and query that the job's regions report."""
    found = list(_parts(job))
    if not found:
        return job
    return msgspec.structs.replace(
        job,
        plan=(*job.plan, *(_vertex(region, part) for region, part in found)),
        regions=(*job.regions, *(_region(region, part) for region, part in found)),
    )


def _parts(job: JobDetails) -> Iterator[tuple[RegionDetails, ProgressPart]]:
    for region in job.regions:
        for part in region.current.progress.parts:
            yield region, part


def _name(part: ProgressPart) -> str:
    """Name with the id: the same line of a program may start many Spark jobs."""
    return f"{part.name} ({part.id})"


def _vertex(region: RegionDetails, part: ProgressPart) -> PlanVertex:
    return PlanVertex(name=_name(part), kind=part.kind, description=f"of {region.id}")


def _region(region: RegionDetails, part: ProgressPart) -> RegionDetails:
    return RegionDetails(
        id=RegionId(f"{region.id}/{part.id}"),
        vertices=(_name(part),),
        streaming=part.kind == _STREAM,
        current=_attempt(region.current, part),
    )


def _attempt(program: AttemptDetails, part: ProgressPart) -> AttemptDetails:
    state = _STATES.get(part.state, ExecutionState.RUNNING)
    if program.state.terminal and not state.terminal:
        # The last report came before the program ended, and the part ended with the program.
        state = program.state
    progress = Progress(
        tasks_total=part.tasks_total,
        tasks_done=part.tasks_done,
        batch_id=part.batch_id,
        rows_per_second=part.rows_per_second,
    )
    # Spark does not report when the part began.
    return msgspec.structs.replace(program, state=state, timestamps={}, progress=progress)
