"""The restart strategy of a job by the keys of its configuration, which are those of a cluster."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stoker.core.durations import read_duration
from stoker.core.graph import RestartPolicy

PREFIX = "restart-strategy"
TYPE = f"{PREFIX}.type"
OFF = ("off", "disable")


def _seconds(text: str) -> float:
    return read_duration(text).total_seconds()


_FIELDS: dict[str, dict[str, tuple[str, Callable[[str], Any]]]] = {
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
RESTART_STRATEGIES = tuple(_FIELDS)


def policy_by_keys(configuration: Mapping[str, str]) -> RestartPolicy | None:
    """None when no strategy is named. Raises ValueError, with the words for the user."""
    named = configuration.get(TYPE, configuration.get(PREFIX))
    if named is None:
        return None
    strategy = "none" if named in OFF else named
    if strategy not in _FIELDS:
        known = ", ".join(RESTART_STRATEGIES)
        raise ValueError(f"{TYPE} is '{named}'; choose one of {known}")
    policy = RestartPolicy(strategy=strategy)
    for name, (field, read) in _FIELDS[strategy].items():
        key = f"{PREFIX}.{strategy}.{name}"
        if key in configuration:
            try:
                value = read(configuration[key])
            except ValueError as error:
                raise ValueError(f"{key} is '{configuration[key]}': {error}") from error
            policy = msgspec.structs.replace(policy, **{field: value})
    return policy
