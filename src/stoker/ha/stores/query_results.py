"""The rows that the queries of one attempt of a SQL script returned.

They live in the storage alone. The process of the task writes them, piece by piece, and then the
record of the query: a query without a record has no result. Nobody else writes below the attempt,
so nothing has to decide between writers.
"""

import re
from collections.abc import Sequence

from stoker.core.errors import CorruptContent
from stoker.core.ids import AttemptId, JobId
from stoker.core.rows import QueryResult
from stoker.ha import keys
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.storage.contract import Storage

LARGEST_FILE = 16 * 1024**2
"""No file that the runner writes is larger, so a larger one is none of its files."""
_RECORD = re.compile(r"(?:.*/)?(\d{6})/result\.json")


class _QueryResultRecord(StoredRecord, frozen=True, kw_only=True):
    result: QueryResult


class QueryResultStore:
    """`folder` is the folder of the attempt in the storage."""

    def __init__(self, storage: Storage, folder: str = "") -> None:
        self._storage = storage
        self._folder = folder

    @classmethod
    def of_attempt(cls, storage: Storage, job_id: JobId, attempt: AttemptId) -> "QueryResultStore":
        return cls(storage, keys.rows_of_attempt(job_id, attempt))

    async def write_rows(self, number: int, piece: int, rows: Sequence[bytes]) -> None:
        """Write a piece of the rows of query `number`, each row as JSON."""
        content = b"[" + b",".join(rows) + b"]"
        await self._storage.write(self._path(keys.query_rows(number, piece)), content)

    async def record(self, number: int, result: QueryResult) -> None:
        """Record the query, all of whose rows are written."""
        path = self._path(keys.query_result(number))
        await self._storage.write(path, encode(_QueryResultRecord(result=result)))

    async def numbers(self) -> list[int]:
        """Numbers of the queries on record, in the order in which they ran."""
        found = map(_RECORD.fullmatch, await self._storage.list(self._folder))
        return sorted(int(match.group(1)) for match in found if match is not None)

    async def read(self, number: int) -> QueryResult:
        """NotFound if no query with this number is on record."""
        path = self._path(keys.query_result(number))
        return decode_record(await self._read(path), _QueryResultRecord, path).result

    async def rows(self, number: int, piece: int) -> bytes:
        """The rows of a piece as a JSON array."""
        return await self._read(self._path(keys.query_rows(number, piece)))

    async def _read(self, path: str) -> bytes:
        """Code of the job can write here, and must not fill the memory of a master."""
        size = await self._storage.size(path)
        if size > LARGEST_FILE:
            raise CorruptContent(f"{path} has {size} bytes, which no result has", where=path)
        return await self._storage.read(path)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}" if self._folder else name
