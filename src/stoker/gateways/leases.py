"""The lease under which attempts run: one option, known to both sides of it."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.options import option


@dataclass(frozen=True, kw_only=True)
class LeaseOptions:
    duration: timedelta = option(
        "task.lease.duration",
        "How long an attempt may go on without a renewal; its task executor kills it then. The "
        "same for all processes of a cluster.",
        timedelta(seconds=60),
    )
    margin: timedelta = option(
        "task.lease.margin",
        "Added to the lease before an attempt on a silent task executor is replaced: for clocks "
        "that drift.",
        timedelta(seconds=5),
    )
