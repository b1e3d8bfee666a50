"""Failures of a job: their cause, their history and the regions that must restart. Pure.

A region reads the result of another region only when it is complete, so a failed region normally
restarts alone. If a finished result turns out to be damaged, the region that made it runs again
first: its running readers are cancelled, and its unfinished readers wait for the new result. The
failover strategy `full` restarts every region that has not finished.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from stoker.core.ids import AttemptId, RegionId
from stoker.core.results import Failure, FailureRecord
from stoker.jobmaster.regions import JobRegions, RegionAttempts

DAMAGED_RESULT = "damaged-result"
"""Label of a failure that names the vertex whose materialized result cannot be read."""


@dataclass(frozen=True, kw_only=True)
class FailoverPlan:
    restart: RegionAttempts
    """Region that restarts after the delay of the restart strategy."""
    follow: tuple[RegionAttempts, ...] = ()
    """The failed region, if a damaged result made it fail; it restarts when that result exists."""
    cancel: tuple[RegionAttempts, ...] = ()
    """Running regions that are cancelled first and then restart."""


def plan_failover(
    runs: JobRegions, failed: RegionAttempts, failure: Failure, *, full: bool
) -> FailoverPlan:
    """Plan to restart the failed region and its readers, or all unfinished regions if `full`."""
    producer = _producer_of_damaged_result(runs, failed, failure)
    restart = producer or failed
    follow = (failed,) if producer is not None else ()
    affected = list(runs) if full else runs.readers_of(restart.region.id)
    return FailoverPlan(
        restart=restart,
        follow=follow,
        cancel=tuple(
            run for run in affected if run.current.is_deployed and run not in (restart, failed)
        ),
    )


def _producer_of_damaged_result(
    runs: JobRegions, failed: RegionAttempts, failure: Failure
) -> RegionAttempts | None:
    """The upstream region whose finished result is damaged, if that caused the failure."""
    vertex = RegionId(failure.labels.get(DAMAGED_RESULT, ""))
    producer = runs.get(vertex)
    if producer is None or vertex not in failed.region.reads or not producer.is_finished:
        return None
    return producer


CAUSE = "cause"
"""Label that the built-in enricher gives: the kind of thing that broke."""

USER_CODE = "user-code"
DEPENDENCY = "dependency"
OUT_OF_MEMORY = "out-of-memory"
TASK_EXECUTOR_LOST = "task-executor-lost"
SPARK = "spark"
STORAGE = "storage"

_LOST = frozenset({"TaskExecutorLost", "AttemptLost"})
_ENGINE = frozenset({"SparkServerDied", "RunnerDied", "StartupFailed", "EngineUnavailable"})
_DEPENDENCY = frozenset({"ImportError", "ModuleNotFoundError", "UserCodeMismatch"})
_STORAGE = frozenset(
    {
        "BlobNotFound",
        "CorruptContent",
        "OutputIncomplete",
        "OutputNotFound",
        "PathAlreadyExists",
        "ResultDamaged",
        "StorageFull",
        "StorageUnavailable",
    }
)
_MEMORY_WORDS = re.compile(
    r"OutOfMemoryError|java heap space|GC overhead limit|MemoryError|Container killed .* memory"
    r"|run out of memory|Cannot allocate memory|SparkOutOfMemoryError",
    re.IGNORECASE,
)
_DEPENDENCY_WORDS = re.compile(r"ModuleNotFoundError|No module named|ClassNotFoundException")
_STORAGE_WORDS = re.compile(
    r"No space left on device|Input/output error|Read-only file system|Stale file handle"
    r"|FileNotFoundException|PATH_NOT_FOUND|FAILED_READ_FILE|AccessDeniedException"
)
_USERS_FRAMES = ("In the job's code", "In a Spark worker")


def label_cause(failure: Failure) -> Mapping[str, str]:
    """Label the cause of a failure, unless it has that label."""
    return {} if CAUSE in failure.labels else {CAUSE: cause_of(failure)}


def cause_of(failure: Failure) -> str:
    """Cause of a failure; the most specific sign wins, as user code can run out of memory too."""
    text = f"{failure.error}: {failure.message}"
    if failure.error in _LOST:
        return TASK_EXECUTOR_LOST
    if _MEMORY_WORDS.search(text):
        return OUT_OF_MEMORY
    if failure.error in _DEPENDENCY or _DEPENDENCY_WORDS.search(text):
        return DEPENDENCY
    if failure.error in _STORAGE or _STORAGE_WORDS.search(text):
        return STORAGE
    if failure.error in _ENGINE:
        return SPARK
    if failure.stack_trace.startswith(_USERS_FRAMES) or failure.error == "PythonException":
        return USER_CODE
    return SPARK if failure.error.endswith("Exception") else USER_CODE


class FailureHistory:
    """The newest failures of a job; its size is bounded, whatever happens."""

    def __init__(self, size: int) -> None:
        self._size = max(0, size)
        self._records: list[FailureRecord] = []

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[FailureRecord]:
        """Oldest first."""
        return iter(self._records)

    def add(self, record: FailureRecord) -> None:
        self._records = [*self._records, record][-self._size :] if self._size else []

    def add_concurrent(self, record: FailureRecord) -> None:
        """Add a failure that happened while the job was reacting to the newest one, if any."""
        if not self._records:
            return
        *others, root = self._records
        concurrent = (*root.concurrent, record)[: self._size]
        self._records = [*others, msgspec.structs.replace(root, concurrent=concurrent)]

    def recall(self, records: Iterable[FailureRecord]) -> None:
        """Add the recorded failures of previous leaders."""
        for record in sorted(records, key=lambda each: each.at):
            self.add(record)

    def label(self, attempt: AttemptId, labels: Mapping[str, str]) -> None:
        self._records = [_labelled(record, attempt, labels) for record in self._records]

    def newest_first(self) -> tuple[FailureRecord, ...]:
        return tuple(reversed(self._records))


def _labelled(
    record: FailureRecord, attempt: AttemptId, labels: Mapping[str, str]
) -> FailureRecord:
    concurrent = tuple(_labelled(each, attempt, labels) for each in record.concurrent)
    failure = record.failure
    if record.attempt == attempt:
        failure = msgspec.structs.replace(failure, labels={**failure.labels, **labels})
    return msgspec.structs.replace(record, failure=failure, concurrent=concurrent)
