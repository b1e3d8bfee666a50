"""The number of shuffle partitions of a region, set by the job or by the cluster."""

import pytest

from stoker.core.job_options import (
    PARALLELISM_OVERRIDES,
    parse_overrides,
    shuffle_partitions,
    with_cluster_overrides,
)


def test_the_override_nearest_to_the_end_of_a_region_counts() -> None:
    job = {PARALLELISM_OVERRIDES: "raw: 2, total:8"}
    assert shuffle_partitions(job, ("raw", "total", "out")) == 8
    assert shuffle_partitions(job, ("raw", "out")) == 2
    assert shuffle_partitions(job, ("other",)) is None
    assert shuffle_partitions({**job, "parallelism.default": "3"}, ("other",)) == 3


def test_the_jobs_own_overrides_win_over_the_clusters() -> None:
    """Shows DISP-23."""
    merged = with_cluster_overrides({PARALLELISM_OVERRIDES: "a:1"}, {"a": "5", "b": "6"})
    assert parse_overrides(merged[PARALLELISM_OVERRIDES]) == {"a": 1, "b": 6}
    assert with_cluster_overrides({"k": "v"}, {}) == {"k": "v"}


@pytest.mark.parametrize("text", ["a", "a:", ":4", "a:0", "a:-1", "a:x", "a:²"])
def test_text_that_is_not_an_override_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not vertex:number"):
        parse_overrides(text)
