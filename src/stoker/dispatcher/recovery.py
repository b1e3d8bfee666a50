"""What a new leader does with the records it finds. Pure."""

from collections.abc import Container, Iterable
from dataclasses import dataclass

from stoker.core.ids import JobId
from stoker.core.results import JobResult
from stoker.gateways.job import JobToRun
from stoker.ha.stores.job_graphs import StoredJob
from stoker.ha.stores.job_results import ResultRecord, UnreadableJob


@dataclass(frozen=True, kw_only=True)
class Recovery:
    run: tuple[JobToRun, ...] = ()
    clean_up: tuple[JobId, ...] = ()
    """Ended, but their clean-up was not finished: they are never run again (RUN-08, RUN-09)."""
    ended: tuple[JobResult, ...] = ()
    broken: tuple[UnreadableJob, ...] = ()
    """Cannot be loaded: shown with the reason, their bytes kept; they harm no other job."""
    broken_and_cancelled: frozenset[JobId] = frozenset()
    """Those of them whose cancel was acknowledged."""


def decide_recovery(
    jobs: Iterable[StoredJob | UnreadableJob],
    results: Iterable[ResultRecord | UnreadableJob],
    cancel_wanted: Container[JobId],
    begun: Container[JobId] = frozenset(),
) -> Recovery:
    results = list(results)
    records = [record for record in results if isinstance(record, ResultRecord)]
    # A result that cannot be read is a result all the same: the job has ended somehow.
    ended = {
        *(record.result.job_id for record in records),
        *(record.job_id for record in results if isinstance(record, UnreadableJob)),
    }
    run: list[JobToRun] = []
    broken: list[UnreadableJob] = []
    for job in jobs:
        match job:
            case StoredJob(record=record, graph=graph) if record.job_id not in ended:
                run.append(
                    JobToRun(
                        graph=graph,
                        submitted_at=record.submitted_at,
                        recovered=True,
                        cancel_wanted=record.job_id in cancel_wanted,
                        begun=record.job_id in begun,
                    )
                )
            case UnreadableJob(job_id=job_id) if job_id not in ended:
                broken.append(job)
            case _:
                pass
    return Recovery(
        run=tuple(sorted(run, key=lambda job: (job.submitted_at, job.graph.job_id))),
        clean_up=tuple(record.result.job_id for record in records if record.dirty),
        ended=tuple(record.result for record in records),
        broken=tuple(broken),
        broken_and_cancelled=frozenset(job.job_id for job in broken if job.job_id in cancel_wanted),
    )
