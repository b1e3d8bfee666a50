"""Which regions a failure concerns: those that must be tried again. Pure."""

from dataclasses import dataclass

from stoker.core.ids import RegionId
from stoker.core.results import Failure
from stoker.jobmaster.regions import RegionRun, RegionRuns

DAMAGED_RESULT = "damaged-result"
"""Label of a failure that names the vertex whose materialized result cannot be read."""


@dataclass(frozen=True, kw_only=True)
class FailOver:
    restart: RegionRun
    """Tried again after the wait that the strategy asks for."""
    follow: tuple[RegionRun, ...] = ()
    """Have nothing that runs; tried again when what they read is there."""
    cancel: tuple[RegionRun, ...] = ()
    """Still run; cancelled first, then tried again."""


def fail_over(runs: RegionRuns, failed: RegionRun, failure: Failure, *, full: bool) -> FailOver:
    """The failed region and those that depend on it; all that have not finished if `full`."""
    producer = _damaged(runs, failed, failure)
    restart = producer or failed
    follow = (failed,) if producer is not None else ()
    concerned = list(runs) if full else runs.readers_of(restart.region.id)
    return FailOver(
        restart=restart,
        follow=follow,
        cancel=tuple(
            run for run in concerned if run.current.deployed and run not in (restart, failed)
        ),
    )


def _damaged(runs: RegionRuns, failed: RegionRun, failure: Failure) -> RegionRun | None:
    """The region whose finished result is gone: the only reason to run it again."""
    vertex = RegionId(failure.labels.get(DAMAGED_RESULT, ""))
    producer = runs.get(vertex)
    if producer is None or vertex not in failed.region.reads or not producer.finished:
        return None
    return producer
