"""The restart strategy of a job by the keys of its configuration, which are those of a cluster."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from stoker.core.durations import read_duration
from stoker.core.graph import RestartPolicy

RESTART_PREFIX = "restart-strategy"
RESTART_TYPE = f"{RESTART_PREFIX}.type"
_NO_RESTART = ("off", "disable")


def _seconds(text: str) -> float:
    return read_duration(text).total_seconds()


_RESTART_FIELDS: dict[str, dict[str, tuple[str, Callable[[str], Any]]]] = {
    "none": {},
    "fixed-delay": {"attempts": ("attempts", int), "delay": ("delay_seconds", _seconds)},
    "failure-rate": {
        "max-failures-per-interval": ("max_failures", int),
        "failure-rate-interval": ("interval_seconds", _seconds),
        "delay": ("delay_seconds", _seconds),
    },
    "exponential-delay": {
        "initial-backoff": ("delay_seconds", _seconds),
        "max-backoff": ("max_delay_seconds", _seconds),
        "backoff-multiplier": ("multiplier", float),
        "jitter-factor": ("jitter", float),
        "reset-backoff-threshold": ("reset_after_seconds", _seconds),
        "attempts-before-reset-backoff": ("attempts_before_reset", int),
    },
}
RESTART_STRATEGIES = tuple(_RESTART_FIELDS)


def policy_by_keys(configuration: Mapping[str, str]) -> RestartPolicy | None:
    """None when no strategy is named. Raises ValueError, with the words for the user."""
    named = configuration.get(RESTART_TYPE, configuration.get(RESTART_PREFIX))
    if named is None:
        return None
    strategy = "none" if named in _NO_RESTART else named
    if strategy not in _RESTART_FIELDS:
        known = ", ".join(RESTART_STRATEGIES)
        raise ValueError(f"{RESTART_TYPE} is '{named}'; choose one of {known}")
    policy = RestartPolicy(strategy=strategy)
    for name, (field, read) in _RESTART_FIELDS[strategy].items():
        key = f"{RESTART_PREFIX}.{strategy}.{name}"
        if key in configuration:
            try:
                value = read(configuration[key])
            except ValueError as error:
                raise ValueError(f"{key} is '{configuration[key]}': {error}") from error
            policy = msgspec.structs.replace(policy, **{field: value})
    return policy


PARALLELISM_OVERRIDES = "pipeline.jobvertex-parallelism-overrides"
"""Key of a job's configuration: `vertex:number,vertex:number`."""
DEFAULT_PARALLELISM = "parallelism.default"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def parse_overrides(text: str) -> dict[str, int]:
    """Raises ValueError, with the words for the user."""
    overrides: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        vertex, colon, number = pair.rpartition(":")
        if not (vertex and colon and number.strip().isdigit() and int(number) > 0):
            raise ValueError(f"'{pair}' is not vertex:number")
        overrides[vertex.strip()] = int(number)
    return overrides


def with_cluster_overrides(
    configuration: Mapping[str, str], cluster: Mapping[str, str]
) -> dict[str, str]:
    """The job's own overrides win, vertex by vertex."""
    if not cluster:
        return dict(configuration)
    wanted = {vertex: int(number) for vertex, number in cluster.items()}
    wanted |= parse_overrides(configuration.get(PARALLELISM_OVERRIDES, ""))
    text = ",".join(f"{vertex}:{number}" for vertex, number in sorted(wanted.items()))
    return {**configuration, PARALLELISM_OVERRIDES: text}


def shuffle_partitions(configuration: Mapping[str, str], vertices: Iterable[str]) -> int | None:
    """Of a region with these vertices, its end last; the override nearest to its end counts.

    Spark plans a region as one query, with one number for all its shuffles.
    """
    overrides = parse_overrides(configuration.get(PARALLELISM_OVERRIDES, ""))
    for vertex in reversed(tuple(vertices)):
        if vertex in overrides:
            return overrides[vertex]
    default = configuration.get(DEFAULT_PARALLELISM)
    return int(default) if default else None
