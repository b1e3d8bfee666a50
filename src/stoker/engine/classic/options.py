"""Options of the classic engine, and of the Python environments of its programs."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class ClassicOptions:
    engines: tuple[str, ...] = option(
        "taskmanager.engines",
        "Spark engines that run here: connect (shared, warm), classic (a driver for each task)",
        ("connect", "classic"),
    )
    warm_drivers: int = option(
        "taskmanager.classic.warm-drivers",
        "Spare drivers with a started JVM, about 600 MB each; each serves one task",
        1,
    )
    warm_at_start: bool = option(
        "taskmanager.classic.warm-at-start",
        "Start the first spare driver with the task executor, not when a job first needs one",
        False,
    )
    replenish_delay: timedelta = option(
        "taskmanager.classic.replenish-delay",
        "Pause before a used spare driver is replaced, so as not to slow down the job's start",
        timedelta(seconds=2),
    )
    heap: ByteSize = option(
        "taskmanager.memory.classic-heap",
        "Largest heap of a classic driver's JVM; a job's own spark.driver.memory wins",
        ByteSize(1024**3),
    )
    environment_timeout: timedelta = option(
        "python-environment.timeout",
        "How long the installation of a job's requirements may take",
        timedelta(minutes=10),
    )
    environments_kept: int = option(
        "python-environment.kept",
        "Installed environments kept for later jobs; the least recently used is removed first",
        20,
    )
