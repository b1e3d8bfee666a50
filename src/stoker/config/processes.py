"""Options of whole processes: where they keep files, where they listen, how they log."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from stoker.core.options import option

DEFAULT_HOME = Path("~/.stoker")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Options that must be equal in all processes of one cluster."""

    high_availability: str | None = option(
        "high-availability",
        "URL of the coordinator: zookeeper://host:port,host:port/root for a cluster, or "
        "embedded:///DIRECTORY for one machine; unset: an embedded one below "
        "high-availability.storageDir.",
        None,
    )
    storage: str | None = option(
        "high-availability.storageDir",
        "Directory that all processes share, for job graphs, results, artifacts and checkpoints: a "
        "path or a file:// URL; unset: ~/.stoker/storage.",
        None,
    )


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class UncaughtExceptions(StrEnum):
    LOG = "LOG"
    FAIL = "FAIL"


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    working_dir: Path | None = option(
        "process.working-dir",
        "Directory of the process's own files; unset: ~/.stoker/work.",
        None,
    )
    log_dir: Path | None = option(
        "process.log-dir",
        "Directory for the logs of attempts and of Spark; unset: in the working directory.",
        None,
    )
    log_level: str = option("process.log-level", "DEBUG, INFO, WARNING or ERROR.", "INFO")
    log_format: LogFormat = option(
        "process.log-format",
        "How a log line is written: text for people, or json, one object per line. Both carry "
        "the component, job, attempt, task executor and epoch that the line is about.",
        LogFormat.TEXT,
    )
    uncaught_exceptions: UncaughtExceptions = option(
        "cluster.uncaught-exception-handling",
        "What an uncaught error does: it is only logged (LOG), or it also ends the process (FAIL).",
        UncaughtExceptions.LOG,
    )


@dataclass(frozen=True, kw_only=True)
class MasterOptions:
    bind_host: str = option(
        "jobmanager.bind-host", "Address on which the master listens for RPC.", "127.0.0.1"
    )
    host: str | None = option(
        "jobmanager.rpc.address",
        "Name or address at which other processes reach the master's RPC; unset: the bind address. "
        "Required when that is a wildcard such as 0.0.0.0.",
        None,
    )
    rpc_port: str = option(
        "jobmanager.rpc.port",
        "Port, list or range of ports for the master's RPC; 0: any free port.",
        "0",
    )
    resource_id: str | None = option(
        "jobmanager.resource-id", "Fixed id of the master; unset: a random one.", None
    )
    shutdown_timeout: timedelta = option(
        "jobmanager.shutdown-timeout",
        "Time for a master to close everything in order when it ends; after that it just exits.",
        timedelta(seconds=30),
    )


@dataclass(frozen=True, kw_only=True)
class TaskExecutorProcessOptions:
    bind_host: str = option(
        "taskmanager.bind-host", "Address on which the task executor listens for RPC.", "127.0.0.1"
    )
    host: str | None = option(
        "taskmanager.host",
        "Name or address at which other processes reach it; unset: the bind address. Required "
        "when that is a wildcard such as 0.0.0.0.",
        None,
    )
    rpc_port: str = option(
        "taskmanager.rpc.port", "Port, list or range of ports for its RPC; 0: any free port.", "0"
    )
    resource_id: str | None = option(
        "taskmanager.resource-id", "Fixed id of the task executor; unset: a random one.", None
    )
    on_demand: bool = option(
        "taskmanager.on-demand",
        "Set by the provider that starts it: the resource manager releases it when it is idle.",
        False,
    )
