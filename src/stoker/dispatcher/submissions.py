"""The limits of those who submit: whether a job may be accepted for its owner.

The queue and the priority of a job are properties of its graph. How many jobs an owner has follows
from the records of the jobs, and how many were accepted in the last minute from the times in these
records: so a change of the leader resets neither.

Invariant: an owner never has more jobs than the limit, however many submissions come at the same
time. A submission counts from its check until it is refused or its job is known.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from stoker.core.errors import Forbidden, LimitReached, StokerError
from stoker.core.graph import JobGraph
from stoker.core.values import Millis
from stoker.gateways.dispatcher import CallerRights

MINUTE: Millis = 60_000


def find_forbidden(graph: JobGraph, rights: CallerRights) -> Forbidden | None:
    """Pure. Why the caller may not submit this graph, at any time."""
    limits, who = rights.limits, f"the {rights.credential} {rights.name}"
    if not limits.allows_queue(graph.queue):
        allowed = ", ".join(limits.queues)
        return Forbidden(
            f"{who} may use the queues {allowed}, and the job names {graph.queue}; set queue to "
            f"one of them, or let an operator allow it: {_remedy(rights, 'queue', graph.queue)}",
            queue=graph.queue,
        )
    if limits.max_priority is not None and graph.priority > limits.max_priority:
        return Forbidden(
            f"{who} may use priorities up to {limits.max_priority}, and the job has "
            f"{graph.priority}; lower it, or let an operator allow it: "
            f"{_remedy(rights, 'max-priority', str(graph.priority))}",
            priority=graph.priority,
        )
    return None


def find_excess(
    rights: CallerRights, *, unfinished: int, accepted: Sequence[Millis], now: Millis
) -> LimitReached | None:
    """Pure. Why one more job is too many at present.

    `unfinished` counts the jobs of the owner that have not ended, `accepted` are the times at which
    jobs of the owner were accepted.
    """
    limits, who = rights.limits, f"the {rights.credential} {rights.name}"
    if limits.max_jobs is not None and unfinished >= limits.max_jobs:
        return LimitReached(
            f"{who} has {unfinished} jobs that have not ended, and its limit is "
            f"{limits.max_jobs}; wait until one has ended or cancel one, or let an operator raise "
            f"the limit: {_remedy(rights, 'max-jobs', 'N')}"
        )
    recent = recent_times(accepted, now)
    most = limits.max_submissions
    if most is not None and len(recent) >= most:
        # With a limit of 0 nothing becomes free; a minute is as good as any time.
        free_at = sorted(recent)[len(recent) - most] + MINUTE if most else now + MINUTE
        seconds = max(1, -((now - free_at) // 1000))
        return LimitReached(
            f"{who} has submitted {len(recent)} jobs within a minute, and its limit is {most}; try "
            f"again in {seconds} s, or let an operator raise the limit: "
            f"{_remedy(rights, 'max-submissions', 'N')}",
            retry_after_seconds=seconds,
        )
    return None


def _remedy(rights: CallerRights, limit: str, value: str) -> str:
    if rights.credential == "token":
        return f"stoker token limit {rights.name} --{limit} {value}"
    return f"security.rest.limits.{'queues' if limit == 'queue' else limit} of its role"


def recent_times(times: Iterable[Millis], now: Millis) -> list[Millis]:
    return [at for at in times if _is_recent(at, now)]


def _is_recent(at: Millis, now: Millis) -> bool:
    """Whether it was in the last minute. The clock of an earlier leader may have been ahead."""
    return -MINUTE < now - at < MINUTE


class Submissions:
    """What each owner has submitted lately, and what is being submitted just now."""

    def __init__(self, accepted: Iterable[tuple[str, Millis]] = ()) -> None:
        """`accepted`: owner and time of submission of the jobs on record."""
        self._accepted: dict[str, deque[Millis]] = {}
        """For each owner, at least those of the last minute, in their order."""
        self._in_progress: Counter[str] = Counter()
        for owner, at in sorted(accepted, key=lambda each: each[1]):
            self._accepted.setdefault(owner, deque()).append(at)

    @contextmanager
    def counting(
        self,
        graph: JobGraph,
        owner: str,
        rights: CallerRights,
        *,
        unfinished: Callable[[], int],
        now: Millis,
    ) -> Iterator[None]:
        """Count the submission while it is in progress; raise the reason if it is one too many.

        `unfinished` counts the jobs of the owner that are known and have not ended.
        """
        refusal = self._find_refusal(graph, owner, rights, unfinished, now)
        if refusal is not None:
            raise refusal
        self._in_progress[owner] += 1
        try:
            yield
        finally:
            self._in_progress[owner] -= 1

    def note_accepted(self, owner: str, now: Millis) -> None:
        times = self._accepted.setdefault(owner, deque())
        while times and not _is_recent(times[0], now):
            times.popleft()
        times.append(now)

    def _find_refusal(
        self,
        graph: JobGraph,
        owner: str,
        rights: CallerRights,
        unfinished: Callable[[], int],
        now: Millis,
    ) -> StokerError | None:
        limits = rights.limits
        forbidden = find_forbidden(graph, rights)
        if forbidden is not None or (limits.max_jobs is None and limits.max_submissions is None):
            return forbidden
        in_progress = self._in_progress[owner]
        return find_excess(
            rights,
            unfinished=in_progress + unfinished(),
            accepted=[*self._accepted.get(owner, ()), *[now] * in_progress],
            now=now,
        )
