"""What can be set about the resource manager."""

from dataclasses import dataclass
from datetime import timedelta

from stoker.core.options import option


@dataclass(frozen=True, kw_only=True)
class ResourceManagerOptions:
    slot_retry_delay: timedelta = option(
        "slotmanager.request-retry-delay",
        "Wait before a slot is matched again after a task executor refused a request for it.",
        timedelta(milliseconds=500),
    )
