"""The events in a cluster, as its engines and clients see them, and the invariants on them."""

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from stoker.core.ids import AttemptId, JobId, RegionId
from stoker.core.results import AttemptOutcome
from stoker.core.states import ExecutionState, JobStatus
from stoker.events.event import ENDS, EventKind, LoggedEvent
from stoker.events.missing import END_KINDS

WAKING_SECONDS: Final = 7.0
"""Seconds after waking up within which work that was frozen beyond its lease has ended.

That covers the next check of leases and the longest cancellation of the scenarios; frozen work
cannot be ended.
"""


@dataclass
class AttemptSpan:
    job_id: JobId
    region: RegionId
    attempt: AttemptId
    executor: str
    began: float
    ended: float | None = None
    finished: bool = False
    """Whether FINISHED is on record; an end that a dying process did not record does not count."""
    pauses: list[tuple[float, float]] = field(default_factory=list)
    """Times at which its process was frozen and woke up."""

    def may_run_at(self, moment: float) -> bool:
        """Whether the attempt ran after this moment.

        An attempt that was frozen at this moment and ended soon after waking up does not count.
        """
        ended = math.inf if self.ended is None else self.ended
        return ended > moment and not any(
            frozen <= moment < woke and ended <= woke + WAKING_SECONDS
            for frozen, woke in self.pauses
        )


@dataclass
class History:
    """All times are times of the loop that the whole cluster shares."""

    attempts: list[AttemptSpan] = field(default_factory=list)
    acknowledged: dict[JobId, float] = field(default_factory=dict)
    cancelled: dict[JobId, float] = field(default_factory=dict)
    """Times at which cancellations were acknowledged."""
    ends: dict[JobId, tuple[JobStatus, float]] = field(default_factory=dict)
    """First terminal status that a client saw."""

    def freeze(self, executor: str, at: float) -> None:
        for span in self.attempts:
            if span.executor == executor and span.ended is None:
                span.pauses.append((at, math.inf))

    def thaw(self, executor: str, at: float) -> None:
        for span in self.attempts:
            if span.executor == executor and span.pauses and span.pauses[-1][1] == math.inf:
                span.pauses[-1] = (span.pauses[-1][0], at)

    def note_outcome(self, outcome: AttemptOutcome) -> None:
        for span in self.attempts:
            if span.attempt == outcome.attempt:
                span.finished = outcome.state is ExecutionState.FINISHED

    def broken_invariants(self, final: dict[JobId, JobStatus]) -> list[str]:
        """One sentence for each violated invariant; `final` holds the recorded states."""
        return [
            *self._lost_jobs(final),
            *self._changed_ends(final),
            *self._overlaps(),
            *self._finished_twice(),
            *self._started_after_end(),
            *self._cancelled_otherwise(final),
        ]

    def _lost_jobs(self, final: dict[JobId, JobStatus]) -> list[str]:
        return [
            f"job {job_id} was acknowledged and did not end: {final.get(job_id)}"
            for job_id in self.acknowledged
            if job_id not in final or not final[job_id].globally_terminal
        ]

    def _changed_ends(self, final: dict[JobId, JobStatus]) -> list[str]:
        return [
            f"job {job_id} was seen as {status} and is now {final.get(job_id)}"
            for job_id, (status, _) in self.ends.items()
            if final.get(job_id) is not status
        ]

    def _overlaps(self) -> list[str]:
        faults = []
        for one in self.attempts:
            for other in self.attempts:
                same = (one.job_id, one.region) == (other.job_id, other.region)
                if one is other or not same or one.began > other.began:
                    continue
                if one.began == other.began and id(one) > id(other):
                    continue
                if one.may_run_at(other.began):
                    faults.append(
                        f"attempts {one.attempt[:6]} on {one.executor} and {other.attempt[:6]} on "
                        f"{other.executor} of {one.job_id[:6]}/{one.region} overlap"
                    )
        return faults

    def _finished_twice(self) -> list[str]:
        seen: set[tuple[JobId, RegionId]] = set()
        faults = []
        for span in self.attempts:
            if span.finished:
                region = (span.job_id, span.region)
                if region in seen:
                    faults.append(f"region {span.region} of job {span.job_id} finished twice")
                seen.add(region)
        return faults

    def _started_after_end(self) -> list[str]:
        return [
            f"an attempt of job {span.job_id} began after the job had ended"
            for span in self.attempts
            if span.job_id in self.ends and span.began > self.ends[span.job_id][1]
        ]

    def _cancelled_otherwise(self, final: dict[JobId, JobStatus]) -> list[str]:
        return [
            f"job {job_id} was cancelled before its end and is {final.get(job_id)}"
            for job_id, at in self.cancelled.items()
            if final.get(job_id) is not JobStatus.CANCELED
            and not (job_id in self.ends and self.ends[job_id][1] <= at)
            and not self._was_over(job_id, at)
        ]

    def _was_over(self, job_id: JobId, at: float) -> bool:
        """Whether the last attempt had ended: the job may keep the state that it had reached."""
        spans = [span for span in self.attempts if span.job_id == job_id]
        return bool(spans) and all(span.ended is not None and span.ended < at for span in spans)


def broken_log_invariants(
    events: Sequence[LoggedEvent], final: Mapping[JobId, JobStatus], jobs: Container[JobId]
) -> list[str]:
    """One sentence for each fault of the event log, for the acknowledged jobs among `final`."""
    ids = [event.id for event in events]
    faults = [
        f"event {later} stands behind {earlier}"
        for earlier, later in pairwise(ids)
        if later <= earlier
    ]
    counts = Counter((event.job, event.kind) for event in events)
    for job_id, status in final.items():
        if job_id not in jobs:
            continue
        expected = [EventKind.JOB_SUBMITTED]
        if status.globally_terminal:
            expected.append(END_KINDS[status])
        faults += [
            f"job {job_id} has {counts[job_id, kind]} events {kind}"
            for kind in expected
            if counts[job_id, kind] != 1
        ]
        faults += [
            f"job {job_id} is {status} and has an event {kind}"
            for kind in ENDS
            if kind not in expected and counts[job_id, kind]
        ]
    return faults
