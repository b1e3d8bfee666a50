"""The failsafe of leases: queries survive an outage of the coordinator.

During an outage no master can be elected, but none can prove its leadership either. A master that
led until then lets attempts continue only if it reaches every other master that it knows and each
confirms that it does not lead and knows no later epoch. A master that cannot be reached might be
the next leader, so without its confirmation attempts must not continue.

A leading master also vouches for the attempts of jobs that it does not drive yet.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from stoker.core.errors import StokerError
from stoker.core.ids import JobId, ResourceId
from stoker.gateways.master import MASTER, MasterGateway
from stoker.ha.coordinator import ConnectionState, Coordinator
from stoker.ha.masters import MasterDirectory
from stoker.rpc.service import Endpoint, RpcService

log = logging.getLogger(__name__)

ANSWER_TIMEOUT = timedelta(seconds=2)


class FailsafeMaster(Endpoint):
    gateway = MasterGateway

    def __init__(
        self,
        resource_id: ResourceId,
        *,
        rpc: RpcService,
        coordinator: Coordinator,
        masters: MasterDirectory,
        leads: Callable[[], bool],
        epoch_led: Callable[[], int | None],
        epoch_known: Callable[[], int],
        is_undriven: Callable[[JobId], bool],
    ) -> None:
        super().__init__(MASTER)
        self._resource_id = resource_id
        self._rpc = rpc
        self._coordinator = coordinator
        self._masters = masters
        self._leads = leads
        self._epoch_led = epoch_led
        self._epoch_known = epoch_known
        self._is_undriven = is_undriven

    def neither_leads_nor_knows_later_epoch(self, epoch: int) -> bool:
        return not self._leads() and self._epoch_known() <= epoch

    async def attempts_may_continue(self, epoch: int) -> bool:
        if not self._was_the_last_to_lead(epoch):
            log.info(
                "no failsafe for epoch %d here: contact %s, led %s, knows of %d",
                epoch,
                self._coordinator.state.value,
                self._epoch_led(),
                self._epoch_known(),
            )
            return False
        others = [
            address for name, address in self._masters.known.items() if name != self._resource_id
        ]
        led = self._epoch_led()
        assert led is not None
        confirmations = await asyncio.gather(*(self._confirms(address, led) for address in others))
        # Checked again: with contact restored, another master may lead by now.
        return all(confirmations) and self._was_the_last_to_lead(epoch)

    def undriven_jobs(self, job_ids: tuple[JobId, ...]) -> tuple[JobId, ...]:
        return tuple(job_id for job_id in job_ids if self._is_undriven(job_id))

    def _was_the_last_to_lead(self, epoch: int) -> bool:
        """Whether this master has lost contact, and led last, in this epoch or a later one."""
        away = self._coordinator.state is ConnectionState.SUSPENDED
        led = self._epoch_led()
        return away and led is not None and epoch <= led and self._epoch_known() <= led

    async def _confirms(self, address: str, epoch: int) -> bool:
        try:
            master = await self._rpc.connect(
                f"{address}/{MASTER}", MasterGateway, timeout=ANSWER_TIMEOUT
            )
            return await master.neither_leads_nor_knows_later_epoch(epoch)
        except StokerError as error:
            log.info("no failsafe without the confirmation of %s: %s", address, error)
            return False
