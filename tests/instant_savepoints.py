"""A fake dispatcher that takes savepoints."""

from stoker.core.checkpoints import SavepointRequest, SavepointTaken
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.gateways.dispatcher import CallerRights, SavepointStatus
from stoker.testing.rest import DispatcherInMemory


class InstantSavepoints(DispatcherInMemory):
    """A dispatcher that takes and disposes of savepoints at once."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[SavepointRequest] = []
        self.disposed: list[str] = []

    async def trigger_savepoint(
        self, job_id: JobId, trigger_id: str, request: SavepointRequest
    ) -> None:
        self.requests.append(request)
        if request.cancel:
            self.set_status(job_id, JobStatus.CANCELED)

    async def savepoint_status(
        self, job_id: JobId, trigger_id: str, seconds: float
    ) -> SavepointStatus:
        return SavepointStatus(done=True, taken=SavepointTaken(path="/saved/one"))

    async def dispose_savepoint(self, path: str, rights: CallerRights | None = None) -> None:
        self.disposed.append(path)
