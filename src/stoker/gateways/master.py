"""The calls of a master as such, whether it leads or not.

Attempts outlive an outage of the coordinator with their help (see `processes/failsafe.py`).
"""

from typing import Protocol

from stoker.core.ids import JobId

MASTER = "master"


class MasterGateway(Protocol):
    """Not fenced: it is called just when nobody can prove leadership."""

    async def neither_leads_nor_knows_later_epoch(self, epoch: int) -> bool:
        """Whether this master does not lead and knows of no epoch after this one."""
        ...

    async def attempts_may_continue(self, epoch: int) -> bool:
        """Whether the failsafe holds for attempts of that epoch.

        True when this master led in that epoch or a later one, has lost the coordinator, and every
        other master that it knows confirms that it neither leads nor knows a later epoch.
        """
        ...

    async def undriven_jobs(self, job_ids: tuple[JobId, ...]) -> tuple[JobId, ...]:
        """Select the jobs whose attempts this master vouches for.

        It is certain to lead, and no job master of the job has started under it, so nobody can
        replace the attempts of the job.
        """
        ...
