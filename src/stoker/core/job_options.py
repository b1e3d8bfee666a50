"""Options that a job sets in its configuration: restart strategy, parallelism, retention.

The keys are those of the cluster's configuration, so that a setting can be moved from one to the
other. Everything here is pure; every ValueError has a message for the user.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from stoker.core.durations import read_duration
from stoker.core.faults import did_you_mean
from stoker.core.graph import RestartPolicy
from stoker.core.states import JobStatus

RESTART_PREFIX = "restart-strategy"
RESTART_TYPE = f"{RESTART_PREFIX}.type"
_NO_RESTART = ("off", "disable")


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("write a whole number") from None


def _positive_number(text: str) -> int:
    number = _whole_number(text)
    if number < 1:
        raise ValueError("write a whole number of at least 1")
    return number


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
    type_key = RESTART_TYPE if RESTART_TYPE in configuration else RESTART_PREFIX
    if type_key not in configuration:
        return None
    strategy = _read(type_key, configuration)
    policy = RestartPolicy(strategy=strategy)
    for name, (field, _) in _RESTART_FIELDS[strategy].items():
        key = _restart_key(strategy, name)
        if key in configuration:
            policy = msgspec.structs.replace(policy, **{field: _read(key, configuration)})
    return policy


def _read(key: str, configuration: Mapping[str, str]) -> Any:
    try:
        return JOB_OPTIONS[key](configuration[key])
    except ValueError as error:
        raise ValueError(f"{key} is '{configuration[key]}': {error}") from error


def _restart_key(strategy: str, name: str) -> str:
    return f"{RESTART_PREFIX}.{strategy}.{name}"


def _strategy(text: str) -> str:
    strategy = "none" if text in _NO_RESTART else text
    if strategy not in _RESTART_FIELDS:
        every = f"choose one of {', '.join(RESTART_STRATEGIES)}"
        raise ValueError(did_you_mean(text, RESTART_STRATEGIES, every))
    return strategy


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
            raise ValueError(f"'{pair}' is not vertex:number")
        overrides[vertex.strip()] = int(number)
    return overrides


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


RETENTION = "execution.checkpointing.externalized-checkpoint-retention"


class Retention(StrEnum):
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"

    def keeps(self, status: JobStatus) -> bool:
        """Whether the last checkpoint of a job that ended with this status is retained."""
        match self:
            case Retention.NO_EXTERNALIZED_CHECKPOINTS:
                return False
            case Retention.DELETE_ON_CANCELLATION:
                return status is JobStatus.FAILED
            case Retention.RETAIN_ON_CANCELLATION:
                # A stream that has finished, such as one that reads what is available now, goes on
                # when it is started again.
                return status in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)


def read_retention(text: str) -> Retention:
    try:
        # In the configuration of the cluster, case and dashes do not matter either.
        return Retention(text.strip().upper().replace("-", "_"))
    except ValueError:
        raise ValueError(did_you_mean(text, Retention)) from None


CONTINUE_OUTPUT = "execution.checkpointing.continue-output"


def read_flag(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("write true or false")


JOB_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    RESTART_PREFIX: _strategy,
    RESTART_TYPE: _strategy,
    **{
        _restart_key(strategy, name): read
        for strategy, fields in _RESTART_FIELDS.items()
        for name, (_, read) in fields.items()
    },
    PARALLELISM_OVERRIDES: parse_overrides,
    DEFAULT_PARALLELISM: _positive_number,
    RETENTION: read_retention,
    CONTINUE_OUTPUT: read_flag,
}
"""How to read each option. The ValueError of a wrong value says what to write instead."""
