"""The checkpoints of one job: a bounded history and counts. Pure.

Every batch that a query commits is a checkpoint of that query. The id of a checkpoint or savepoint
is the number of all checkpoints and savepoints up to it, so that ids grow under every leader. A new
leader derives its count from the batches that the queries report and the savepoints on record.
"""

from collections.abc import Iterable

from stoker.core.checkpoints import (
    BatchFigures,
    CheckpointCounts,
    CheckpointEntry,
    CheckpointKind,
    Checkpoints,
    CheckpointStatus,
    RestoredFrom,
    SavepointTaken,
)
from stoker.core.ids import RegionId
from stoker.core.values import Millis


class CheckpointHistory:
    def __init__(self, regions: Iterable[RegionId], size: int) -> None:
        self._regions = frozenset(regions)
        self._size = size
        self._last: dict[RegionId, int] = {}
        self._latest_id = 0
        self.savepoints_started = 0
        """Savepoints that all leaders of the job have started."""
        self._entries: list[CheckpointEntry] = []
        self._counts = CheckpointCounts()
        self._completed: CheckpointEntry | None = None
        self._savepoint: CheckpointEntry | None = None
        self._failed: CheckpointEntry | None = None
        self._restored: RestoredFrom | None = None
        self._pending: dict[str, CheckpointEntry] = {}

    def batches_committed(self, region: RegionId, batches: Iterable[BatchFigures]) -> None:
        """Add committed batches; those that are known already change nothing."""
        for figures in sorted(batches, key=lambda each: each.batch_id):
            if region not in self._regions or figures.batch_id <= self._last.get(region, -1):
                continue
            self._last[region] = figures.batch_id
            entry = CheckpointEntry(
                id=self._next_id(),
                kind=CheckpointKind.CHECKPOINT,
                status=CheckpointStatus.COMPLETED,
                at=figures.at,
                ended_at=figures.at + figures.duration_ms,
                region=region,
                figures=figures,
                size_bytes=figures.state_bytes,
            )
            self._completed = entry
            self._add(entry)
            self._count(total=1, completed=1)

    def _next_id(self) -> int:
        counted = sum(last + 1 for last in self._last.values()) + self.savepoints_started
        # Reports of batches may come late or never; ids must grow all the same.
        self._latest_id = max(self._latest_id + 1, counted)
        return self._latest_id

    def savepoint_started(self, savepoint_id: str, kind: CheckpointKind, at: Millis) -> None:
        self.savepoints_started += 1
        self._pending[savepoint_id] = CheckpointEntry(
            id=self._next_id(), kind=kind, status=CheckpointStatus.IN_PROGRESS, at=at
        )
        self._count(total=1, in_progress=1)

    def savepoint_completed(self, savepoint_id: str, taken: SavepointTaken, at: Millis) -> None:
        pending = self._pending.pop(savepoint_id)
        entry = CheckpointEntry(
            id=pending.id,
            kind=pending.kind,
            status=CheckpointStatus.COMPLETED,
            at=pending.at,
            ended_at=at,
            path=taken.path,
            size_bytes=taken.size_bytes,
        )
        self._savepoint = entry
        self._add(entry)
        self._count(in_progress=-1, completed=1)

    def savepoint_failed(self, savepoint_id: str, reason: str, at: Millis) -> None:
        pending = self._pending.pop(savepoint_id)
        entry = CheckpointEntry(
            id=pending.id,
            kind=pending.kind,
            status=CheckpointStatus.FAILED,
            at=pending.at,
            ended_at=at,
            failure=reason,
        )
        self._failed = entry
        self._add(entry)
        self._count(in_progress=-1, failed=1)

    def add_previous_stop(self, path: str, at: Millis) -> None:
        """Add the savepoint with which a previous master stopped the job."""
        entry = CheckpointEntry(
            id=self._next_id(),
            kind=CheckpointKind.STOP_SAVEPOINT,
            status=CheckpointStatus.COMPLETED,
            at=at,
            ended_at=at,
            path=path,
        )
        self._savepoint = entry
        self._add(entry)
        self._count(total=1, completed=1)

    def restored(self, origin: RestoredFrom) -> None:
        self._restored = origin
        self._count(restored=1)

    def view(self) -> Checkpoints:
        pending = tuple(reversed(self._pending.values()))
        return Checkpoints(
            counts=self._counts,
            history=(pending + tuple(reversed(self._entries)))[: self._size],
            latest_completed=self._completed,
            latest_savepoint=self._savepoint,
            latest_failed=self._failed,
            restored=self._restored,
        )

    def _add(self, entry: CheckpointEntry) -> None:
        self._entries = [*self._entries, entry][-self._size :] if self._size else []

    def _count(self, **more: int) -> None:
        fields = CheckpointCounts.__struct_fields__
        self._counts = CheckpointCounts(
            **{name: getattr(self._counts, name) + more.get(name, 0) for name in fields}
        )
