"""Spare drivers, each with a started JVM and a Spark context; each is used once."""

import asyncio
import logging
from collections.abc import Mapping

from stoker.aio.log_context import without
from stoker.core.errors import StokerError
from stoker.core.ids import Ids
from stoker.engine.classic.driver_client import DriverProcess, DriverSetup, start_driver
from stoker.engine.classic.settings import Fit, fit_of

log = logging.getLogger(__name__)

Spare = asyncio.Task[DriverProcess | StokerError]


class DriverPool:
    def __init__(self, setup: DriverSetup, ids: Ids) -> None:
        self._setup = setup
        self._ids = ids
        self._spares: list[Spare] = []
        self._wanted = asyncio.Event()
        if setup.classic.warm_at_start:
            self._wanted.set()

    @property
    def ready(self) -> int:
        return sum(spare.done() and not _is_unusable(spare) for spare in self._spares)

    async def take(
        self, configuration: Mapping[str, str], environment: Mapping[str, str]
    ) -> DriverProcess:
        """Return a driver that fits the job, a spare if possible; raises StokerError."""
        fit = fit_of(configuration, environment)
        try:
            if fit is Fit.NOTHING:
                return await start_driver(
                    self._setup,
                    self._ids.nonce(),
                    warm=False,
                    settings=configuration,
                    environment=environment,
                )
            return await self._take_spare()
        finally:
            self._wanted.set()

    async def _take_spare(self) -> DriverProcess:
        while True:
            spare = self._spares.pop(0) if self._spares else self._start_spare()
            try:
                driver = await asyncio.shield(spare)
            except asyncio.CancelledError:
                self._spares.insert(0, spare)
                raise
            if isinstance(driver, StokerError):
                raise driver
            if driver.is_alive:
                return driver

    async def wait_until_warm(self) -> str:
        """Wait for a spare driver; returns Spark's version, or raises StokerError."""
        if not self._spares:
            self._spares.append(self._start_spare())
        driver = await asyncio.shield(self._spares[0])
        if isinstance(driver, StokerError):
            raise driver
        return driver.spark_version

    async def run(self) -> None:
        """Replace used spares, from the first use on; end all spares when cancelled."""
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                # Leave the machine to the job that has just taken a spare.
                await asyncio.sleep(self._setup.classic.replenish_delay.total_seconds())
                self._spares = [spare for spare in self._spares if not _is_unusable(spare)]
                while len(self._spares) < self._setup.classic.warm_drivers:
                    self._spares.append(self._start_spare())
        finally:
            await self._end_spares()

    def _start_spare(self) -> Spare:
        context = without("job", "attempt")
        return asyncio.create_task(self._start(), name="prepare-driver", context=context)

    async def _start(self) -> DriverProcess | StokerError:
        try:
            return await start_driver(self._setup, self._ids.nonce(), warm=True)
        except StokerError as error:
            log.warning("no spare driver: %s", error)
            return error

    async def _end_spares(self) -> None:
        for spare in self._spares:
            spare.cancel()
        await asyncio.gather(*self._spares, return_exceptions=True)
        for spare in self._spares:
            if not spare.cancelled() and isinstance(driver := spare.result(), DriverProcess):
                await driver.kill()


def _is_unusable(spare: Spare) -> bool:
    if not spare.done():
        return False
    driver = spare.result()
    return isinstance(driver, StokerError) or not driver.is_alive
