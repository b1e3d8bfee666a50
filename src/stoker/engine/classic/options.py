"""What can be set about drivers of a job's own, and about the programs that run in them."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class ClassicOptions:
    engines: tuple[str, ...] = option(
        "taskmanager.engines",
        "Spark engines that run here: connect (shared, warm), classic (a driver for each job)",
        ("connect", "classic"),
    )
    warm_drivers: int = option(
        "taskmanager.classic.warm-drivers",
        "Drivers with a started JVM that stand ready, about 600 MB each; each serves one job",
        1,
    )
    warm_at_start: bool = option(
        "taskmanager.classic.warm-at-start",
        "Make the first of them when the task executor starts, not when a job first needs one",
        False,
    )
    replenish_delay: timedelta = option(
        "taskmanager.classic.replenish-delay",
        "Pause after one was taken before the next is made, so as not to disturb the job's start",
        timedelta(seconds=2),
    )
    heap: ByteSize = option(
        "taskmanager.memory.classic-heap",
        "Largest heap of such a driver's JVM; a job's own spark.driver.memory wins",
        ByteSize(1024**3),
    )
    environment_timeout: timedelta = option(
        "python-environment.timeout",
        "How long the installation of a job's requirements may take",
        timedelta(minutes=10),
    )
    environments_kept: int = option(
        "python-environment.kept",
        "Installed environments that stay for later jobs; the one used longest ago goes first",
        20,
    )
