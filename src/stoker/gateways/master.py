"""What processes ask of a master as such, whether it leads or not: to outlive the coordinator."""

from typing import Protocol

from stoker.core.ids import JobId

MASTER = "master"


class MasterGateway(Protocol):
    """Not fenced: it is asked just when nobody can prove leadership."""

    async def neither_leads_nor_knows_later_than(self, epoch: int) -> bool:
        """Whether this master does not lead and knows of no epoch after this one."""
        ...

    async def attempts_may_go_on(self, epoch: int) -> bool:
        """Failsafe: whether this master led in that epoch or a later one, lost the coordinator, and
        every other master that it knows confirms that it neither leads nor knows a later epoch."""
        ...

    async def undriven_jobs(self, job_ids: tuple[JobId, ...]) -> tuple[JobId, ...]:
        """Those of them that this master vouches for: it leads for sure, and no master of the job
        has begun under it, so that nobody can replace the job's attempts."""
        ...
