"""What can be set about the Spark engine of a task executor."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from stoker.core.options import ByteSize, option


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
        "Further spark.* settings of the engine; they win over Stoker's own defaults",
        {},
    )
    working_directory: Path | None = option(
        "taskmanager.spark.working-directory",
        "What relative paths in jobs are relative to; without it, the engine's own directory",
        None,
    )
    start_timeout: timedelta = option(
        "taskmanager.spark.start-timeout",
        "How long the Spark Connect server may take to answer",
        timedelta(seconds=120),
    )
    restart_delay: timedelta = option(
        "taskmanager.spark.restart-delay",
        "Pause before a dead Spark server or zygote is started again; doubles with each failure",
        timedelta(milliseconds=200),
    )
    max_restart_delay: timedelta = option(
        "taskmanager.spark.max-restart-delay",
        "Longest pause between two starts of the Spark server",
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
        " anything in it; 1 switches all reuse of sessions and processes off",
        100,
    )
    replenish_delay: timedelta = option(
        "runner.replenish-delay",
        "A runner that was taken is replaced when its task has ended, or after this long",
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
        "When tasks of Spark go on for so long after their cancel, their Spark server is killed, "
        "and what else runs there begins again, whatever its restart strategy; 0: never",
        timedelta(seconds=6),
    )
    runner_memory: ByteSize | None = option(
        "runner.memory",
        "Memory that a task's own processes may take beyond that of a warm runner, Spark's not "
        "counted; without it, half of the machine's",
        None,
    )
    runner_processes: int = option(
        "runner.processes", "Processes that a task may have at the same time", 1000
    )
    runner_open_files: int | None = option(
        "runner.open-files",
        "Files that each process of a task may have open; without it, as many as the task executor",
        None,
    )
    runner_run_time: timedelta | None = option(
        "runner.run-time",
        "A batch task that runs for longer is ended and has failed; without it, none is",
        None,
    )
    runner_log_size: ByteSize = option(
        "runner.log-size",
        "Of a task's output more than this is not kept: the middle of it is left out",
        ByteSize(64 * 1024**2),
    )
    recycle_after_tasks: int | None = option(
        "taskmanager.spark.recycle-after-tasks",
        "A Spark server that has run so many tasks is replaced; it ends when its tasks have",
        None,
    )
    recycle_at_memory: ByteSize | None = option(
        "taskmanager.spark.recycle-at-memory",
        "A Spark server that holds so much memory after a task is replaced in the same way",
        None,
    )
