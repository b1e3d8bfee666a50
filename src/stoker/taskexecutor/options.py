"""Options of task executors."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.options import ByteSize, option


@dataclass(frozen=True, kw_only=True)
class TaskExecutorOptions:
    slots: int = option(
        "taskmanager.numberOfTaskSlots", "Tasks that may run here at the same time.", 2
    )
    slot_timeout: timedelta = option(
        "taskmanager.slot.timeout",
        "A reserved slot that no job master accepts within this time is freed.",
        timedelta(seconds=10),
    )
    registration_timeout: timedelta = option(
        "taskmanager.registration.timeout",
        "A task executor that runs nothing ends itself when the leading resource manager has not "
        "accepted it for this long.",
        timedelta(minutes=5),
    )
    progress_interval: timedelta = option(
        "taskmanager.progress.interval",
        "Shortest time between two reports of progress to the job master.",
        timedelta(seconds=1),
    )
    logs_retention: timedelta = option(
        "taskmanager.logs.retention",
        "Time for which the task executor keeps the logs of an attempt after its end; a copy in "
        "the storage is kept for as long as the result of the job.",
        timedelta(days=7),
    )
    logs_size_limit: ByteSize = option(
        "taskmanager.logs.size-limit",
        "Size of the logs of ended attempts on the disk of the task executor; beyond it, those "
        "that were written longest ago are removed early. 0: no limit.",
        ByteSize(10 * 1024**3),
    )
