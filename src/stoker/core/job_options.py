"""Options that a job sets in its configuration: its restart strategy and its parallelism.

The keys are those of the cluster's configuration, so that a setting can be moved from one to the
other. Everything here is pure; every ValueError has a message for the user.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from stoker.core.durations import read_duration
from stoker.core.graph import RestartPolicy

RESTART_PREFIX = "restart-strategy"
RESTART_TYPE = f"{RESTART_PREFIX}.type"
_NO_RESTART = ("off", "disable")


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("write a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("write a number") from None


def _seconds(text: str) -> float:
    return read_duration(text).total_seconds()


_RESTART_FIELDS: dict[str, dict[str, tuple[str, Callable[[str], Any]]]] = {
    "none": {},
    "fixed-delay": {"attempts": ("attempts", _whole_number), "delay": ("delay_seconds", _seconds)},
    "failure-rate": {
        "max-failures-per-interval": ("max_failures", _whole_number),
        "failure-rate-interval": ("interval_seconds", _seconds),
        "delay": ("delay_seconds", _seconds),
    },
    "exponential-delay": {
        "initial-backoff": ("delay_seconds", _seconds),
        "max-backoff": ("max_delay_seconds", _seconds),
        "backoff-multiplier": ("multiplier", _number),
        "jitter-factor": ("jitter", _number),
        "reset-backoff-threshold": ("reset_after_seconds", _seconds),
        "attempts-before-reset-backoff": ("attempts_before_reset", _whole_number),
    },
}
RESTART_STRATEGIES = tuple(_RESTART_FIELDS)


def policy_by_keys(configuration: Mapping[str, str]) -> RestartPolicy | None:
    """The restart policy that the keys describe; None when no strategy is named."""
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
"""Shuffle partitions by vertex: `vertex:number,vertex:number`."""
DEFAULT_PARALLELISM = "parallelism.default"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
LARGEST_PARALLELISM = 32768
"""The largest that Flink allows, also for requests in its form and for --parallelism."""


def parse_overrides(text: str) -> dict[str, int]:
    overrides: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        vertex, colon, number = pair.rpartition(":")
        if not (vertex and colon and number.strip().isdecimal() and int(number) > 0):
            raise ValueError(f"{PARALLELISM_OVERRIDES}: '{pair}' is not vertex:number")
        overrides[vertex.strip()] = int(number)
    return overrides


def check_default_parallelism(configuration: Mapping[str, str]) -> None:
    """Raise ValueError unless the default parallelism is absent or a whole number."""
    text = configuration.get(DEFAULT_PARALLELISM, "1")
    try:
        _whole_number(text)
    except ValueError as error:
        raise ValueError(f"{DEFAULT_PARALLELISM} is '{text}': {error}") from error


def with_cluster_overrides(
    configuration: Mapping[str, str], cluster: Mapping[str, str]
) -> dict[str, str]:
    """Add the cluster's overrides; for each vertex, that of the job wins."""
    if not cluster:
        return dict(configuration)
    wanted = {vertex: int(number) for vertex, number in cluster.items()}
    wanted |= parse_overrides(configuration.get(PARALLELISM_OVERRIDES, ""))
    text = ",".join(f"{vertex}:{number}" for vertex, number in sorted(wanted.items()))
    return {**configuration, PARALLELISM_OVERRIDES: text}


def shuffle_partitions(configuration: Mapping[str, str], vertices: Iterable[str]) -> int | None:
    """Shuffle partitions of a region with these vertices, its end last; None: Spark's default.

    Spark plans a region as one query, with one number for all its shuffles. So the override of the
    vertex nearest to the end of the region counts.
    """
    overrides = parse_overrides(configuration.get(PARALLELISM_OVERRIDES, ""))
    for vertex in reversed(tuple(vertices)):
        if vertex in overrides:
            return overrides[vertex]
    default = configuration.get(DEFAULT_PARALLELISM)
    return int(default) if default else None
