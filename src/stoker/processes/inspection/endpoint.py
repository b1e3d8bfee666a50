"""The endpoint, in every process, that reports on the process itself."""

from pathlib import Path

from stoker.core.errors import NotFound
from stoker.gateways.inspection import INSPECTION, InspectionGateway, LoggedFile, LogListing
from stoker.metrics.registry import MetricFamily, MetricRegistry
from stoker.processes.inspection.log_files import LogFiles
from stoker.processes.inspection.usage import thread_stacks
from stoker.rpc.service import Endpoint, RpcService
from stoker.rpc.wire import split_address


class Inspection(Endpoint):
    gateway = InspectionGateway

    def __init__(self, log_directory: Path | None, metrics: MetricRegistry) -> None:
        super().__init__(INSPECTION)
        self._metrics = metrics
        self._logs = LogFiles(log_directory)

    def metrics(self) -> list[MetricFamily]:
        return self._metrics.collect()

    def threads(self) -> dict[str, str]:
        return thread_stacks()

    def logs(self) -> LogListing:
        files = tuple(
            LoggedFile(name=file.name, size=file.size, modified=file.modified)
            for file in self._logs.listing()
        )
        return LogListing(
            files=files,
            main_log=self._logs.main_log(),
            main_output=self._logs.main_output(),
        )

    def read_log(self, name: str, offset: int, length: int) -> bytes:
        piece = self._logs.read(name, max(0, offset), max(0, length))
        if piece is None:
            raise NotFound(f"no log file {name!r}; the list of logs has the valid names")
        return piece


async def inspection_at(rpc: RpcService, address: str) -> InspectionGateway:
    """The inspection of the process that has an endpoint at this address."""
    process, _ = split_address(address)
    return await rpc.connect(f"{process}/{INSPECTION}", InspectionGateway)
