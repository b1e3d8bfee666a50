"""Checks of the job as a whole: id, name, restarts, configuration, artifacts, resources, size."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from stoker.core.checks.structure import place_of
from stoker.core.faults import Fault, closest, did_you_mean
from stoker.core.graph import GRAPH_VERSION, EngineKind, JobGraph, RestartPolicy, engine_of
from stoker.core.ids import is_hex_id
from stoker.core.job_options import (
    JOB_OPTIONS,
    PARALLELISM_OVERRIDES,
    RESTART_PREFIX,
    RESTART_STRATEGIES,
    parse_overrides,
    policy_by_keys,
)
from stoker.core.regions import slots_together

LONGEST_JOB_NAME = 200
HIGHEST_PRIORITY = 1000
_MISTYPED_KEY = 0.9
"""A key that is this similar to an option of a job is a mistyped one."""
QUEUE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")

_CLUSTER_PREFIXES = (
    "spark.connect.",
    "spark.deploy.",
    "spark.driver.",
    "spark.dynamicAllocation.",
    "spark.eventLog.",
    "spark.executor.",
    "spark.jars",
    "spark.kubernetes.",
    "spark.memory.",
    "spark.network.",
    "spark.rpc.",
    "spark.sql.hive.thriftServer.",
    "spark.sql.streaming.ui.",
    "spark.sql.ui.",
    "spark.submit.",
    "spark.task.",
    "spark.ui.",
    "spark.yarn.",
)
_CLUSTER_KEYS = frozenset(
    {
        "spark.app.name",
        "spark.default.parallelism",
        "spark.extraListeners",
        "spark.local.dir",
        "spark.master",
        "spark.plugins",
        "spark.scheduler.mode",
        "spark.serializer",
        "spark.sql.broadcastExchange.maxThreadThreshold",
        "spark.sql.cache.serializer",
        "spark.sql.catalogImplementation",
        "spark.sql.codegen.cache.maxEntries",
        "spark.sql.event.truncate.length",
        "spark.sql.extensions",
        "spark.sql.filesourceTableRelationCacheSize",
        "spark.sql.globalTempDatabase",
        "spark.sql.metadataCacheTTLSeconds",
        "spark.sql.queryExecutionListeners",
        "spark.sql.sources.disabledJdbcConnProviderList",
        "spark.sql.streaming.streamingQueryListeners",
        "spark.sql.subquery.maxThreadThreshold",
        "spark.sql.warehouse.dir",
    }
)


def is_static_setting(key: str) -> bool:
    """Whether Spark reads this setting only at the start of an engine, not for each session."""
    return key in _CLUSTER_KEYS or key.startswith(_CLUSTER_PREFIXES)


def job_faults(graph: JobGraph) -> Iterator[Fault]:
    if graph.version != GRAPH_VERSION:
        yield Fault(
            "job",
            f"its graph has version {graph.version}, this cluster reads version {GRAPH_VERSION}",
            "use the client of the cluster's Stoker version",
        )
    if not is_hex_id(graph.job_id):
        yield Fault(
            "job",
            f"its id '{graph.job_id}' is not a job id",
            "use 32 hexadecimal digits in lower case, or leave it out",
        )
    yield from _name_faults(graph.name)
    if graph.restart is not None:
        yield from restart_faults(graph.restart)
    if graph.client_timeout_seconds is not None and not graph.client_timeout_seconds > 0:
        yield Fault("job", "the timeout of its client is not positive", "use more than 0 seconds")
    yield from _key_faults(graph)
    yield from _configuration_faults(graph)
    yield from _artifact_faults(graph)
    yield from _resource_faults(graph)


def size_faults(graph: JobGraph, max_bytes: int) -> Iterator[Fault]:
    try:
        size = len(msgspec.json.encode(graph))
    except UnicodeEncodeError as error:
        yield Fault("job", f"a text in it is not Unicode: {error.object!r}", "correct the text")
        return
    if size <= max_bytes:
        return
    sizes = {place_of(vertex): len(msgspec.json.encode(vertex)) for vertex in graph.vertices}
    largest = max(sizes, key=lambda place: sizes[place], default="job")
    yield Fault(
        largest,
        f"the job's graph has {_mebibytes(size)}, and the limit is {_mebibytes(max_bytes)}; "
        f"the largest part is {largest} with {_mebibytes(sizes.get(largest, size))}",
        "put large data into a file and add it as an artifact, or read it in a source",
    )


def _key_faults(graph: JobGraph) -> Iterator[Fault]:
    """Faults of the options that a job sets by keys of its configuration."""
    faults = [*_mistyped_keys(graph.configuration), *_unreadable_values(graph.configuration)]
    if faults:
        yield from faults
        return
    if (policy := policy_by_keys(graph.configuration)) is not None:
        yield from restart_faults(policy)
    overrides = parse_overrides(graph.configuration.get(PARALLELISM_OVERRIDES, ""))
    names = [vertex.name for vertex in graph.vertices]
    for unknown in sorted(overrides.keys() - set(names)):
        yield Fault(
            "configuration",
            f"{PARALLELISM_OVERRIDES} names '{unknown}', which is not a vertex",
            did_you_mean(unknown, names),
        )


def _mistyped_keys(configuration: Mapping[str, str]) -> Iterator[Fault]:
    for key in configuration:
        # Any other key may be one of Spark or Flink, or mean something to the job itself.
        if key in JOB_OPTIONS or key.startswith("spark."):
            continue
        likeness = 0.6 if key.startswith(f"{RESTART_PREFIX}.") else _MISTYPED_KEY
        meant = closest(key, JOB_OPTIONS, likeness=likeness)
        if meant is not None:
            yield Fault("configuration", f"unknown key '{key}'", f"did you mean '{meant}'?")


def _unreadable_values(configuration: Mapping[str, str]) -> Iterator[Fault]:
    for key, text in configuration.items():
        if key not in JOB_OPTIONS:
            continue
        try:
            JOB_OPTIONS[key](text)
        except ValueError as error:
            yield Fault("configuration", f"{key} is '{text}'", str(error))


def restart_faults(restart: RestartPolicy) -> Iterator[Fault]:
    if restart.strategy not in RESTART_STRATEGIES:
        yield Fault(
            "restart",
            f"unknown strategy '{restart.strategy}'",
            did_you_mean(restart.strategy, RESTART_STRATEGIES),
        )
    at_least = (
        ("attempts", restart.attempts, 0),
        ("delay_seconds", restart.delay_seconds, 0),
        ("max_delay_seconds", restart.max_delay_seconds, 0),
        ("reset_after_seconds", restart.reset_after_seconds, 0),
        ("max_failures", restart.max_failures, 0),
        ("interval_seconds", restart.interval_seconds, 0),
        ("attempts_before_reset", restart.attempts_before_reset or 0, 0),
        ("multiplier", restart.multiplier, 1),
        ("jitter", restart.jitter, 0),
    )
    for key, value, least in at_least:
        if not math.isfinite(value) or value < least:
            yield Fault("restart", f"{key} is {value}", f"use a number of at least {least}")
    if restart.jitter > 1:
        yield Fault("restart", f"jitter is {restart.jitter}", "use a share between 0 and 1")
    if (
        restart.strategy == "exponential-delay"
        and restart.max_delay_seconds < restart.delay_seconds
    ):
        yield Fault(
            "restart",
            f"max_delay_seconds ({restart.max_delay_seconds}) is less than delay_seconds "
            f"({restart.delay_seconds})",
            "raise it",
        )


def _name_faults(name: str) -> Iterator[Fault]:
    if not name.strip():
        yield Fault("job", "its name is empty", "give it a name")
    elif len(name) > LONGEST_JOB_NAME:
        yield Fault("job", "its name is too long", f"use at most {LONGEST_JOB_NAME} characters")
    elif not name.isprintable():
        yield Fault("job", "its name has characters that cannot be printed", "remove them")


def _configuration_faults(graph: JobGraph) -> Iterator[Fault]:
    for key in graph.configuration:
        if not key.strip() or key != key.strip():
            yield Fault("configuration", f"'{key}' is not a key", "write a dotted name")
        elif is_static_setting(key) and engine_of(graph) is EngineKind.CONNECT:
            yield Fault(
                "configuration",
                f"'{key}' holds for a whole Spark engine and cannot be set for one job",
                "set it in the configuration of the cluster, or run the job with --engine classic",
            )


def _resource_faults(graph: JobGraph) -> Iterator[Fault]:
    if not QUEUE_NAME.fullmatch(graph.queue):
        yield Fault(
            "queue",
            f"'{graph.queue}' is not the name of a queue",
            "use letters, digits, dots, dashes and underscores, 64 at most",
        )
    if abs(graph.priority) > HIGHEST_PRIORITY:
        yield Fault(
            "priority",
            f"it is {graph.priority}",
            f"use a number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}",
        )
    if graph.slots is not None and graph.slots < 1:
        yield Fault("slots", f"it is {graph.slots}", "use a number of at least 1, or leave it out")
    cores, memory = graph.profile.cores, graph.profile.memory_bytes
    if not math.isfinite(cores) or cores < 0 or memory < 0:
        yield Fault(
            "resources", "cores or memory are negative or not finite", "use numbers of at least 0"
        )


def together_faults(graph: JobGraph) -> Iterator[Fault]:
    """Too few slots for the streaming regions, which run together or not at all.

    The graph must have no other faults.
    """
    together = slots_together(graph)
    if graph.slots is not None and 1 <= graph.slots < together:
        yield Fault(
            "slots",
            f"the job may use {graph.slots}, but its {together} streaming queries run together",
            f"raise it to {together}, or leave it out",
        )


def _artifact_faults(graph: JobGraph) -> Iterator[Fault]:
    for name, count in Counter(artifact.name for artifact in graph.artifacts).items():
        if count > 1:
            yield Fault(
                f"artifact '{name}'",
                f"{count} files have this name",
                "rename one: all files of a job are in one directory",
            )
        if name in {"", ".", ".."} or "/" in name or "\\" in name or "\0" in name:
            yield Fault(
                f"artifact '{name}'", "this is not the name of a file", "use a plain file name"
            )


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
