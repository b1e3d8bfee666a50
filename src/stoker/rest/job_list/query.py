"""Queries of the job list: parsing, filtering, sorting and paging."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from stoker.core.errors import InvalidInput
from stoker.core.graph import JobType
from stoker.core.results import JobSummary
from stoker.core.states import JobStatus
from stoker.core.values import Millis

MAX_LIMIT = 10_000

_ORDERS: dict[str, Callable[[JobSummary, Millis], Any]] = {
    "start-time": lambda job, now: job.start,
    "end-time": lambda job, now: now if job.end is None else job.end,
    "duration": lambda job, now: (now if job.end is None else job.end) - job.start,
    "last-modification": lambda job, now: job.last_change,
    "name": lambda job, now: job.name.casefold(),
    "state": lambda job, now: job.status.value,
    "jid": lambda job, now: job.job_id,
}


@dataclass(frozen=True, kw_only=True)
class JobQuery:
    states: frozenset[JobStatus] | None = None
    types: frozenset[JobType] | None = None
    name: str | None = None
    """Part of the job's name in upper or lower case, or the beginning of its id."""
    owners: frozenset[str] | None = None
    shows_owner: bool = False
    only_own: str | None = None
    """The owner to whom the caller is limited, whatever it asks for."""
    sort: str = "start-time"
    descending: bool = True
    offset: int = 0
    limit: int | None = None

    @property
    def is_default(self) -> bool:
        """Whether no parameter is given: the whole list, newest first, as in Flink's API."""
        return self == JobQuery()

    @property
    def is_plain(self) -> bool:
        """Whether the answer has the fields of Flink's alone."""
        return replace(self, only_own=None).is_default

    def limited_to(self, owner: str | None) -> "JobQuery":
        """The same query of the jobs of this owner alone; of all jobs for None."""
        return self if owner is None else replace(self, only_own=owner)

    @property
    def wants_only_live(self) -> bool:
        """Whether no ended job can match, since none of the wanted states is terminal."""
        return self.states is not None and not any(state.globally_terminal for state in self.states)


@lru_cache(maxsize=256)
def parse_query(
    *,
    state: str | None,
    type_: str | None,
    name: str | None,
    owner: str | None = None,
    show: str | None = None,
    sort: str | None,
    offset: int | None,
    limit: int | None,
) -> JobQuery:
    order = sort or "-start-time"
    key = order.removeprefix("-")
    if key not in _ORDERS:
        raise InvalidInput(
            f"sort must be one of {', '.join(_ORDERS)}, with a minus before it for descending, "
            f"found {sort!r}"
        )
    return JobQuery(
        states=_members(state, JobStatus, "state"),
        types=_members(type_, JobType, "type"),
        name=name or None,
        owners=frozenset(owner.split(",")) if owner else None,
        shows_owner=_shows_owner(show),
        sort=key,
        descending=order.startswith("-"),
        offset=offset or 0,
        limit=limit,
    )


def _shows_owner(show: str | None) -> bool:
    if show not in (None, "owner"):
        raise InvalidInput(f"show must be owner, found {show!r}")
    return show is not None


def _members(text: str | None, kind: Any, parameter: str) -> Any:
    if not text:
        return None
    try:
        return frozenset(kind(part.strip().upper()) for part in text.split(","))
    except ValueError:
        known = ", ".join(kind)
        raise InvalidInput(
            f"{parameter} must be one or more of {known} with commas between them, found {text!r}"
        ) from None


def select_page(
    jobs: Sequence[JobSummary], query: JobQuery, now: Millis
) -> tuple[list[JobSummary], int]:
    """The jobs of one page and the number of all that match; `jobs` are newest first."""
    filters = (query.states, query.types, query.name, query.owners, query.only_own)
    unfiltered = filters == (None,) * len(filters)
    found = jobs if unfiltered else [job for job in jobs if _matches(job, query)]
    if not (query.sort == "start-time" and query.descending):
        order = _ORDERS[query.sort]
        # The sort is stable: equal jobs stay newest first.
        found = sorted(found, key=lambda job: order(job, now), reverse=query.descending)
    end = None if query.limit is None else query.offset + query.limit
    return list(found[query.offset : end]), len(found)


def _matches(job: JobSummary, query: JobQuery) -> bool:
    if query.states is not None and job.status not in query.states:
        return False
    if query.types is not None and job.job_type not in query.types:
        return False
    if query.owners is not None and job.owner not in query.owners:
        return False
    if query.only_own is not None and job.owner != query.only_own:
        return False
    if query.name is None:
        return True
    wanted = query.name.casefold()
    return wanted in job.name.casefold() or job.job_id.startswith(wanted)
