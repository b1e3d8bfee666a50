"""Queries of the job list."""

import pytest

from stoker.core.errors import InvalidInput
from stoker.dispatcher.job_index import EndedJobs
from stoker.rest.job_list.deltas import JobList
from stoker.rest.job_list.query import JobQuery, parse_query, select_page
from unit.rest.job_list.test_deltas import delta, ended, job_id, live


def query(**changes: object) -> JobQuery:
    none = dict.fromkeys(("state", "type_", "name", "sort", "offset", "limit"))
    return parse_query(**(none | changes))  # type: ignore[arg-type]


def test_a_query_without_parameters_is_the_default_query() -> None:
    assert query().is_default
    assert not query(limit=10).is_default


@pytest.mark.parametrize(
    ("asked", "found", "matching"),
    [
        ({}, [3, 2, 1], 3),
        ({"state": "running"}, [3], 1),
        ({"state": "FINISHED,RUNNING"}, [3, 2, 1], 3),
        ({"type_": "batch"}, [2, 1], 2),
        ({"type_": "batch", "limit": 1}, [2], 2),
        ({"name": "LIVE"}, [3], 1),
        ({"name": "0" * 31 + "2"}, [2], 1),
        ({"sort": "name"}, [1, 2, 3], 3),
        ({"sort": "-name"}, [3, 2, 1], 3),
        ({"sort": "start-time"}, [1, 2, 3], 3),
        ({"offset": 1, "limit": 1}, [2], 3),
        ({"offset": 7}, [], 3),
        ({"limit": 0}, [], 3),
    ],
)
def test_a_query_filters_sorts_and_pages_jobs_and_counts_all_that_match(
    asked: dict[str, object], found: list[int], matching: int
) -> None:
    jobs = EndedJobs([ended(1, 10), ended(2, 20)])
    everything = [live(3, 30), *reversed(jobs.summaries())]
    page, total = select_page(everything, query(**asked), now=100)
    assert [each.job_id for each in page] == [job_id(number) for number in found]
    assert total == matching


@pytest.mark.parametrize(
    ("states", "only_live"),
    [(None, False), ("RUNNING", True), ("RUNNING,CANCELLING", True), ("RUNNING,FINISHED", False)],
)
def test_a_query_for_live_states_finds_the_same_jobs_among_live_jobs_as_among_all(
    states: str | None, only_live: bool
) -> None:
    asked = query(state=states)
    assert asked.wants_only_live is only_live
    jobs = JobList()
    running = [live(3, 30), live(4, 5)]
    jobs.apply(delta(EndedJobs([ended(1, 10), ended(2, 20)]), None, running))
    if only_live:
        assert select_page(jobs.live_jobs(), asked, 100) == select_page(jobs.all_jobs(), asked, 100)


@pytest.mark.parametrize("asked", [{"state": "DONE"}, {"sort": "size"}, {"type_": "both"}])
def test_an_unknown_value_in_a_query_is_refused_with_the_known_ones(
    asked: dict[str, object],
) -> None:
    with pytest.raises(InvalidInput, match="must be"):
        query(**asked)
