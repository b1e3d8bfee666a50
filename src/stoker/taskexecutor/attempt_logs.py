"""What attempts write: read while they run and afterwards, and copied to where it outlives us."""

import logging
from pathlib import Path

from stoker.blob.content import OffLoop
from stoker.core.errors import NotFound, StorageUnavailable
from stoker.core.ids import AttemptId, JobId
from stoker.gateways.attempt_logs import LARGEST_PIECE, LogPiece, LogStream
from stoker.ha.keys import LOG_CHUNK_BYTES, log_chunk
from stoker.storage.contract import Storage

log = logging.getLogger(__name__)


class AttemptLogs:
    def __init__(self, work_dir: Path, log_dir: Path, storage: Storage, off_loop: OffLoop) -> None:
        self._work_dir = work_dir
        self._log_dir = log_dir
        self._storage = storage
        self._off_loop = off_loop

    async def read(
        self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int
    ) -> LogPiece:
        """NotFound when nothing of the attempt was ever here."""
        return await self._off_loop(self._read, job_id, attempt, stream, offset)

    def _read(self, job_id: JobId, attempt: AttemptId, stream: LogStream, offset: int) -> LogPiece:
        running = self._work_dir / "attempts" / attempt
        is_running = running.is_dir()
        for place in (running, self._kept(job_id, attempt)):
            try:
                with (place / f"{stream}.log").open("rb") as file:
                    file.seek(offset)
                    data = file.read(LARGEST_PIECE)
            except FileNotFoundError:
                continue
            return LogPiece(data=data, complete=not is_running and len(data) < LARGEST_PIECE)
        if is_running or self._kept(job_id, attempt).is_dir():
            return LogPiece(complete=not is_running)
        raise NotFound(f"no log of attempt {attempt} is here", attempt=attempt)

    async def copy_to_storage(self, job_id: JobId, attempt: AttemptId) -> None:
        """So that they can be read when this task executor is gone. What fails is only missed."""
        kept = self._kept(job_id, attempt)
        for stream in LogStream:
            path = kept / f"{stream}.log"
            number = 0
            while data := await self._off_loop(_chunk, path, number):
                try:
                    await self._storage.write(log_chunk(job_id, attempt, stream, number), data)
                except StorageUnavailable as error:
                    log.warning("a log of attempt %s is kept here alone: %s", attempt, error)
                    return
                number += 1

    def _kept(self, job_id: JobId, attempt: AttemptId) -> Path:
        return self._log_dir / "attempts" / job_id / attempt


def _chunk(path: Path, number: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(number * LOG_CHUNK_BYTES)
            return file.read(LOG_CHUNK_BYTES)
    except FileNotFoundError:
        return b""
