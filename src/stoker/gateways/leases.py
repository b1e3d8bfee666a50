"""Options of leases, which task executors and job masters share.

Both sides must use the same values: a task executor ends its attempts when their lease is over,
and the job master starts others only when that has surely happened.
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from stoker.core.errors import InvalidOption
from stoker.core.options import option


@dataclass(frozen=True, kw_only=True)
class LeaseOptions:
    duration: timedelta = option(
        "task.lease.duration",
        "How long an attempt may continue without a renewal; then its task executor, or its own "
        "process, ends it. Must be the same in all processes of a cluster.",
        timedelta(seconds=60),
    )
    margin: timedelta = option(
        "task.lease.margin",
        "Added to the lease before an attempt on a silent task executor is replaced, to allow for "
        "clock drift.",
        timedelta(seconds=5),
    )

    def __post_init__(self) -> None:
        if self.margin * 4 > self.duration:
            raise InvalidOption(
                f"task.lease.margin ({self.margin.total_seconds():g} s) is more than a quarter of "
                f"task.lease.duration ({self.duration.total_seconds():g} s); attempts need the rest"
            )

    def check_session_timeout(self, seconds: float) -> None:
        """Half a lease must be enough to notice that a leader is gone and to renew elsewhere."""
        longest = (self.duration / 2 - self.margin).total_seconds()
        if math.isfinite(seconds) and seconds > longest:
            raise InvalidOption(
                f"the coordinator's session timeout of {seconds:g} s is too long for leases of "
                f"{self.duration.total_seconds():g} s: attempts would end before a dead leader is "
                f"noticed; make it at most {longest:g} s, or task.lease.duration longer"
            )
