"""Options of the Spark engine of a task executor."""

import re
from dataclasses import dataclass
from datetime import timedelta

from stoker.core.errors import InvalidOption
from stoker.core.options import ByteSize, option

CATALOG_IMPLEMENTATION = "spark.sql.catalogImplementation"
WAREHOUSE = "spark.sql.warehouse.dir"
_UMASK = re.compile("0?[0-7]{3}")


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    master: str = option(
        "spark.master",
        "Spark master of the engine: local[*], spark://host:port, yarn or k8s://url",
        "local[*]",
    )
    heap: ByteSize = option(
        "taskmanager.memory.spark-heap",
        "Largest heap of the Spark Connect server",
        ByteSize(1024**3),
    )
    spark_properties: dict[str, str] = option(
        "taskmanager.spark.properties",
        "Further spark.* settings of the engine; they override Stoker's own defaults",
        {},
    )
    start_timeout: timedelta = option(
        "taskmanager.spark.start-timeout",
        "How long the Spark Connect server, or a classic driver, may take to start",
        timedelta(seconds=120),
    )
    restart_delay: timedelta = option(
        "taskmanager.spark.restart-delay",
        "Pause before a dead Spark server or zygote is restarted; doubles with each failure",
        timedelta(milliseconds=200),
    )
    max_restart_delay: timedelta = option(
        "taskmanager.spark.max-restart-delay",
        "Longest pause before a dead Spark server or zygote is restarted",
        timedelta(seconds=30),
    )
    warm_runners: int = option(
        "runner.warm",
        "Runner processes kept ready, each with a Spark session that has run a query",
        2,
    )
    runner_tasks: int = option(
        "runner.tasks",
        "How many tasks a runner process may run, one after the other, if none of them can leave"
        " anything behind in it; 1 switches off all reuse of sessions and processes",
        100,
    )
    replenish_delay: timedelta = option(
        "runner.replenish-delay",
        "A runner in use is replaced when its task has ended, or after this time",
        timedelta(seconds=1),
    )
    runner_start_timeout: timedelta = option(
        "runner.start-timeout",
        "How long a runner may take to open its Spark session",
        timedelta(seconds=180),
    )
    cancellation_grace: timedelta = option(
        "task.cancellation.grace",
        "How long a cancelled task may take to end by itself before its process is killed",
        timedelta(seconds=5),
    )
    cancellation_timeout: timedelta = option(
        "task.cancellation.timeout",
        "When Spark tasks still run this long after their cancellation, their Spark server is "
        "killed, and other tasks there restart regardless of their restart strategy; 0: never",
        timedelta(seconds=6),
    )
    runner_memory: ByteSize | None = option(
        "runner.memory",
        "Memory that a task's own processes may use beyond that of a warm runner, not counting "
        "Spark's; without it, half of the machine's memory",
        None,
    )
    passed_variables: tuple[str, ...] = option(
        "runner.environment.pass",
        "Environment variables of the task executor that code of jobs may see, besides those that "
        "programs, Spark and Hadoop need; a name may contain *, as in AWS_*",
        (),
    )
    runner_processes: int = option(
        "runner.processes", "Processes that a task may have at the same time", 1000
    )
    runner_open_files: int | None = option(
        "runner.open-files",
        "Files that each process of a task may have open; without it, the task executor's limit",
        None,
    )
    runner_run_time: timedelta | None = option(
        "runner.run-time",
        "A batch task that runs longer than this is ended and fails; without it, there is no limit",
        None,
    )
    runner_log_size: ByteSize = option(
        "runner.log-size",
        "Largest log of a task's output; the middle of a longer output is left out",
        ByteSize(64 * 1024**2),
    )
    result_rows: int = option(
        "sql.result.max-rows",
        "Rows that are kept of each SELECT of a SQL script, for whoever asks for its result",
        10_000,
    )
    result_size: ByteSize = option(
        "sql.result.max-size",
        "Size of the rows, as JSON, that are kept of all SELECTs of a SQL script together",
        ByteSize(8 * 1024**2),
    )
    recycle_after_tasks: int | None = option(
        "taskmanager.spark.recycle-after-tasks",
        "Replace a Spark server that has run this many tasks; it ends when its last task has ended",
        None,
    )
    recycle_at_memory: ByteSize | None = option(
        "taskmanager.spark.recycle-at-memory",
        "Replace a Spark server in the same way when it holds this much memory after a task",
        None,
    )
    runner_umask: str | None = option(
        "runner.umask",
        "Umask of user code and of Spark, such as 022: who may read the files that sinks write. "
        "Without it, the one with which the task executor was started",
        None,
    )

    def __post_init__(self) -> None:
        if self.runner_umask is not None and _UMASK.fullmatch(self.runner_umask) is None:
            raise InvalidOption(
                f"runner.umask is {self.runner_umask!r}; write three octal digits, such as 022"
            )
        settings = self.spark_properties
        if settings.get(CATALOG_IMPLEMENTATION) == "hive" and WAREHOUSE not in settings:
            raise InvalidOption(
                f"taskmanager.spark.properties sets {CATALOG_IMPLEMENTATION} to hive and no "
                f"{WAREHOUSE}: tables would be written into a private directory of one Spark; set "
                "it to a directory or URL that every task executor reaches"
            )
