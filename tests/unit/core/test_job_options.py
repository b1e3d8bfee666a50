"""Options that a job sets in its configuration, and how they go together with the cluster's."""

import pytest

from stoker.config.values import parse
from stoker.core.job_options import (
    PARALLELISM_OVERRIDES,
    RETENTION,
    Retention,
    parse_overrides,
    shuffle_partitions,
    with_cluster_overrides,
)
from stoker.savepoints.options import SavepointOptions


def test_the_override_nearest_to_the_end_of_a_region_counts() -> None:
    job = {PARALLELISM_OVERRIDES: "raw: 2, total:8"}
    assert shuffle_partitions(job, ("raw", "total", "out")) == 8
    assert shuffle_partitions(job, ("raw", "out")) == 2
    assert shuffle_partitions(job, ("other",)) is None
    assert shuffle_partitions({**job, "parallelism.default": "3"}, ("other",)) == 3


def test_the_jobs_own_overrides_win_over_the_clusters() -> None:
    """Those of the cluster fill in the other vertices (DISP-23)."""
    merged = with_cluster_overrides({PARALLELISM_OVERRIDES: "a:1"}, {"a": "5", "b": "6"})
    assert parse_overrides(merged[PARALLELISM_OVERRIDES]) == {"a": 1, "b": 6}
    assert with_cluster_overrides({"k": "v"}, {}) == {"k": "v"}


@pytest.mark.parametrize("text", ["a", "a:", ":4", "a:0", "a:-1", "a:x", "a:²"])
def test_text_that_is_not_an_override_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not vertex:number"):
        parse_overrides(text)


@pytest.mark.parametrize("text", ["RETAIN_ON_CANCELLATION", " retain-on-cancellation "])
def test_a_job_writes_its_retention_as_the_cluster_does(text: str) -> None:
    cluster = SavepointOptions(retention=parse(Retention, text))
    assert cluster.retention is Retention.RETAIN_ON_CANCELLATION
    assert SavepointOptions().retention_of({RETENTION: text}) is cluster.retention


def test_a_job_without_a_readable_retention_has_the_clusters() -> None:
    cluster = SavepointOptions(retention=Retention.DELETE_ON_CANCELLATION)
    assert cluster.retention_of({}) is cluster.retention
    assert cluster.retention_of({RETENTION: "always"}) is cluster.retention
