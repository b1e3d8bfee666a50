"""Options of the resource manager."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from stoker.core.errors import InvalidOption
from stoker.core.options import option
from stoker.resourcemanager.matching import MatchingRules, Placement


class ProviderKind(StrEnum):
    STANDALONE = "standalone"
    LOCAL_PROCESS = "local-process"


@dataclass(frozen=True, kw_only=True)
class ResourceManagerOptions:
    slot_retry_delay: timedelta = option(
        "slotmanager.request-retry-delay",
        "Wait before a slot is matched again after a task executor refused a request for it.",
        timedelta(milliseconds=500),
    )
    placement: Placement = option(
        "slotmanager.placement",
        "spread takes slots of the emptiest task executor first; pack those of the fullest, so "
        "that others stay idle.",
        Placement.SPREAD,
    )
    patience: timedelta = option(
        "slotmanager.reserve-after",
        "Time for which smaller jobs may overtake one whose queries must start together; then "
        "slots that become free are reserved for it.",
        timedelta(minutes=1),
    )
    ageing: timedelta = option(
        "slotmanager.priority-ageing",
        "The priority of a job rises by one each time it has waited this long for slots; 0 s "
        "disables this, and unimportant jobs may then wait for ever.",
        timedelta(minutes=5),
    )
    job_timeout: timedelta = option(
        "resourcemanager.job.timeout",
        "The slot requirements of a job are dropped when no master leads it for this long.",
        timedelta(minutes=5),
    )
    check_interval: timedelta = option(
        "resourcemanager.check-interval",
        "Time between checks for idle and overdue task executors and for jobs without a master.",
        timedelta(seconds=5),
    )
    provider: ProviderKind = option(
        "resourcemanager.provider",
        "Who starts task executors. standalone: the operators of the cluster. local-process: the "
        "leading master, on its own machine, as jobs need them.",
        ProviderKind.STANDALONE,
    )
    max_executors: int = option(
        "resourcemanager.local-process.max-task-executors",
        "Largest number of task executors that a master starts by itself.",
        2,
    )
    spare_executors: int = option(
        "slotmanager.redundant-taskmanager-num",
        "Spare task executors, whose slots are kept free beyond the needs of jobs, for as long as "
        "any job needs slots.",
        0,
    )
    idle_timeout: timedelta = option(
        "resourcemanager.taskmanager-timeout",
        "A task executor that a provider started is released after it had no task for this long.",
        timedelta(seconds=30),
    )
    start_timeout: timedelta = option(
        "resourcemanager.taskmanager-registration.timeout",
        "A task executor that a provider started and that does not register within this time is "
        "stopped and replaced.",
        timedelta(minutes=5),
    )
    start_failures: int = option(
        "resourcemanager.start-worker.max-failure-rate",
        "Failed starts of task executors in a minute before the next one waits.",
        10,
    )
    start_pause: timedelta = option(
        "resourcemanager.start-worker.retry-interval",
        "Wait before the next start after too many failures.",
        timedelta(seconds=3),
    )

    def __post_init__(self) -> None:
        for key, value in (
            ("resourcemanager.local-process.max-task-executors", self.max_executors),
            ("slotmanager.redundant-taskmanager-num", self.spare_executors),
            ("resourcemanager.start-worker.max-failure-rate", self.start_failures),
        ):
            if value < 0:
                raise InvalidOption(f"{key} is {value}; use a number from 0 up", key=key)
        if self.check_interval <= timedelta(0):
            raise InvalidOption(
                "resourcemanager.check-interval must be more than 0 s",
                key="resourcemanager.check-interval",
            )

    @property
    def rules(self) -> MatchingRules:
        return MatchingRules(placement=self.placement, patience=self.patience, ageing=self.ageing)
