"""Launch intents: which attempt of a region was last sent to which task executor.

A master may die right after it has sent an attempt. Its successor must know of that attempt, or it
would start a second one beside it. So the intent is recorded before the attempt is sent.
"""

from stoker.core.errors import KeyExists
from stoker.core.failpoints import failpoint
from stoker.core.ids import AllocationId, AttemptId, InstanceId, JobId, RegionId, ResourceId
from stoker.ha import keys
from stoker.ha.coordinator import Create, Put
from stoker.ha.leadership import Leadership
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.ha.stores.fenced import commit_or_read_back


class AttemptRecord(StoredRecord, frozen=True, kw_only=True):
    """Value of `attempts/<job>/<region>`."""

    job_id: JobId
    region: RegionId
    attempt: AttemptId
    number: int
    task_executor: ResourceId
    instance: InstanceId
    address: str
    allocation: AllocationId = AllocationId("")
    """The slot of the attempt."""


class AttemptStore:
    """Writes under one leadership: the coordinator refuses those of an earlier leader.

    The records are removed together with the job's own.
    """

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._coordinator = leadership.coordinator

    async def put(self, record: AttemptRecord) -> None:
        """Replace the intent of the region. Deploy only after this has returned."""
        key, value = keys.attempt(record.job_id, record.region), encode(record)
        # Before a region's first attempt there is no record, so read it only if creating fails.
        if record.number > 0 or not await self._is_created(key, value):
            found = await self._coordinator.read(key)
            op = Create(key, value) if found is None else Put(key, value, found.version)
            await self._write(op, value)

    async def _is_created(self, key: str, value: bytes) -> bool:
        try:
            await self._write(Create(key, value), value)
        except KeyExists:
            return False
        return True

    async def _write(self, op: Create | Put, value: bytes) -> None:
        failpoint("attempts.before-record")
        await commit_or_read_back(
            self._leadership, [op], key=op.key, is_ours=lambda found: found == value
        )
        failpoint("attempts.after-record")

    async def get(self, job_id: JobId, region: RegionId) -> AttemptRecord | None:
        key = keys.attempt(job_id, region)
        found = await self._coordinator.read(key)
        return None if found is None else decode_record(found.value, AttemptRecord, key)

    async def of_job(self, job_id: JobId) -> list[AttemptRecord]:
        """The last attempt of each region that ever had one, sorted by region."""
        records: list[AttemptRecord] = []
        for name in await self._coordinator.children(keys.attempts(job_id)):
            key = f"{keys.attempts(job_id)}/{name}"
            found = await self._coordinator.read(key)
            if found is not None:
                records.append(decode_record(found.value, AttemptRecord, key))
        return sorted(records, key=lambda record: record.region)

    async def jobs(self) -> frozenset[JobId]:
        """Jobs of which an attempt was ever sent."""
        return frozenset(JobId(name) for name in await self._coordinator.children(keys.ATTEMPTS))
