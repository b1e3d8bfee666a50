"""What a program has started in Spark, as vertices of its job.

Nobody knows them before they begin, so that they are not in the job's plan as it was submitted.
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
    """The job with a vertex, and a region of its own, for each Spark job and query it tells of."""
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
    """With its id: a program counts in the same line again and again."""
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


def _attempt(of: AttemptDetails, part: ProgressPart) -> AttemptDetails:
    state = _STATES.get(part.state, ExecutionState.RUNNING)
    if of.state.terminal and not state.terminal:
        # It was told of for the last time before its program ended, and has ended with that.
        state = of.state
    progress = Progress(
        tasks_total=part.tasks_total,
        tasks_done=part.tasks_done,
        batch_id=part.batch_id,
        rows_per_second=part.rows_per_second,
    )
    # When it began is not known.
    return msgspec.structs.replace(of, state=state, timestamps={}, progress=progress)
