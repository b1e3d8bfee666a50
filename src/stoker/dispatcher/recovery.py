"""What a new leader does with the records that it finds.

The previous leader may have died between any two writes, so each job is in one of four states:
accepted and not ended (run it), ended with its clean-up unfinished (a dirty result: clean up),
ended for good (only listed), or unreadable (quarantine).

Two streams with one output are never accepted, unless an earlier leader did not learn that its
write of a record had succeeded, or was of a release that did not check. Of two such streams the
one that has not begun goes to quarantine, and waits there until the other one has ended.

Invariant: a job with a result never runs again, even when the result itself cannot be read. And a
store that cannot be read is never taken for an empty one: the leader reads again until it succeeds.
"""

import asyncio
import itertools
import logging
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from stoker.aio.retry import Backoff, retry
from stoker.core.errors import StorageUnavailable
from stoker.core.graph import JobGraph, JobType
from stoker.core.ids import JobId
from stoker.core.results import JobResult
from stoker.core.values import Millis
from stoker.dispatcher.output_reservations import output_in_use
from stoker.dispatcher.stores import Stores
from stoker.gateways.job import JobToRun
from stoker.ha.stores.job_graphs import StoredJob
from stoker.ha.stores.job_results import ResultRecord, UnreadableJob
from stoker.savepoints.outputs import outputs_of

log = logging.getLogger(__name__)

RECOVERY_BACKOFF = Backoff(initial=timedelta(seconds=0.2), maximum=timedelta(seconds=10))
READS_BEFORE_QUARANTINE = 6
"""While no graph at all can be read, the storage may be away, and the leader reads again. After so
many reads the jobs go to quarantine if the storage can at least list their files."""


@dataclass(frozen=True, kw_only=True)
class Recovery:
    run: tuple[JobToRun, ...] = ()
    clean_up: tuple[JobId, ...] = ()
    """Jobs that ended before their clean-up was finished; they never run again."""
    ended: tuple[JobResult, ...] = ()
    broken: tuple[UnreadableJob, ...] = ()
    """Jobs that cannot be loaded or must not run beside another one. They go to quarantine and harm
    no other job."""
    broken_and_cancelled: frozenset[JobId] = frozenset()
    """Broken jobs whose cancellation was acknowledged."""

    def submitted(self) -> Iterator[tuple[str, Millis]]:
        """Owner and time of submission of each job whose record can be read."""
        for job in self.run:
            yield job.owner, job.submitted_at
        for result in self.ended:
            yield result.owner, result.start


async def recover(stores: Stores, *, within: timedelta | None) -> Recovery | None:
    """Read all records, again and again until that succeeds, and decide.

    None when it takes longer than `within`, for a caller that cannot wait for ever.
    """
    tries = itertools.count()

    async def read() -> Recovery:
        results = await stores.results.all()
        jobs = await stores.graphs.read_all(insistent=next(tries) >= READS_BEFORE_QUARANTINE)
        cancelled = await stores.cancellations.all()
        return decide_recovery(jobs, results, cancelled, await stores.attempts.jobs())

    try:
        async with asyncio.timeout(within.total_seconds() if within else None) as limit:
            recovery = await retry(read, on=(StorageUnavailable,), backoff=RECOVERY_BACKOFF)
    except TimeoutError:
        if not limit.expired():
            raise
        return None
    log.info(
        "recovered %d jobs to run, %d to clean up, %d ended, %d for quarantine",
        len(recovery.run),
        len(recovery.clean_up),
        len(recovery.ended),
        len(recovery.broken),
    )
    for broken in recovery.broken:
        log.error("job %s goes to quarantine: %s", broken.job_id, broken.reason)
    return recovery


def decide_recovery(
    jobs: Iterable[StoredJob | UnreadableJob],
    results: Iterable[ResultRecord | UnreadableJob],
    cancel_wanted: Container[JobId],
    admitted: Container[JobId] = frozenset(),
) -> Recovery:
    """Pure. `admitted` are the jobs that had their turn before, known by their attempts."""
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
                        was_admitted=record.job_id in admitted,
                        owner=record.owner,
                    )
                )
            case UnreadableJob(job_id=job_id) if job_id not in ended:
                broken.append(job)
            case _:
                pass
    run.sort(key=lambda job: (job.submitted_at, job.graph.job_id))
    conflicts = _output_conflicts(run)
    broken += conflicts
    held_back = {conflict.job_id for conflict in conflicts}
    return Recovery(
        run=tuple(job for job in run if job.graph.job_id not in held_back),
        clean_up=tuple(record.result.job_id for record in records if record.dirty),
        ended=tuple(record.result for record in records),
        broken=tuple(broken),
        broken_and_cancelled=frozenset(job.job_id for job in broken if job.job_id in cancel_wanted),
    )


def _output_conflicts(jobs: Iterable[JobToRun]) -> list[UnreadableJob]:
    """The streams that have not begun and whose output an earlier one writes."""
    writers: dict[str, JobGraph] = {}
    conflicts: list[UnreadableJob] = []
    for job in sorted(jobs, key=lambda job: not (job.was_admitted or job.cancel_wanted)):
        is_stream = job.graph.job_type is JobType.STREAMING
        outputs = outputs_of(job.graph) if is_stream else {}
        shared = next((output for output in outputs if output in writers), None)
        if shared is None or job.was_admitted or job.cancel_wanted:
            writers |= {output: job.graph for output in outputs if output not in writers}
        else:
            reason = str(output_in_use(writers[shared], outputs[shared]))
            conflicts.append(UnreadableJob(job_id=job.graph.job_id, reason=reason, owner=job.owner))
    return conflicts
