"""Checkpoints as Spark would write them, in an in-memory storage."""

import io
import json
import zipfile
from collections.abc import Iterable

from stoker.core.graph import FormatRead, FormatWrite, JobGraph, JobType, Sink, Source, Vertex
from stoker.core.ids import JobId
from stoker.savepoints.take import checkpoint_folder
from stoker.storage.memory import MemoryStorage

JOB = JobId("a" * 32)


def streaming_graph(*sinks: str, sources: Iterable[str] = ("raw",), **more: object) -> JobGraph:
    vertices: list[Vertex] = [
        Source(name=name, read=FormatRead(format="json", path=f"/in/{name}"), streaming=True)
        for name in sources
    ]
    vertices += [
        Sink(name=name, input="raw", write=FormatWrite(format="parquet", path=f"/out/{name}"))
        for name in sinks
    ]
    return JobGraph(
        job_id=JOB,
        name="words",
        vertices=tuple(vertices),
        job_type=JobType.STREAMING,
        **more,  # type: ignore[arg-type]
    )


def snapshot(parts: dict[str, int]) -> bytes:
    listed = [{"dfsSstFileName": name, "sizeBytes": size} for name, size in parts.items()]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": listed}))
    return buffer.getvalue()


def bomb() -> bytes:
    """A small archive that claims to unpack to more than a snapshot can have."""
    content = bytearray(snapshot({}))
    # The size of the only member, in the archive's central directory.
    at = content.index(b"PK\x01\x02") + 24
    content[at : at + 4] = (2**31).to_bytes(4, "little")
    return bytes(content)


class FakeQuery:
    """A query that commits batches, takes snapshots and purges old files, like Spark."""

    def __init__(self, storage: MemoryStorage, region: str, *, partitions: int = 2) -> None:
        self.files = storage.files
        self.root = checkpoint_folder(JOB, region)
        self.partitions = partitions
        self.batch = -1
        self._put("metadata", json.dumps({"id": f"id-of-{region}"}))
        self._put(
            "state/0/_metadata/metadata",
            "v1\n"
            + json.dumps(
                {
                    "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
                    "stateStoreInfo": [{"storeName": "default", "numPartitions": partitions}],
                }
            ),
        )

    def _put(self, path: str, content: str | bytes) -> None:
        data = content if isinstance(content, bytes) else content.encode()
        self.files[f"{self.root}/{path}"] = data

    def plan(self) -> None:
        settings = {"spark.sql.shuffle.partitions": str(self.partitions)}
        facts = {"batchWatermarkMs": 1000 * self.batch, "conf": settings}
        offset = json.dumps({"logOffset": self.batch + 1})
        self._put(f"offsets/{self.batch + 1}", f"v1\n{json.dumps(facts)}\n{offset}")
        self._put(f"sources/0/{self.batch + 1}", "v1\n{}")

    def commit(self) -> None:
        version = self.batch + 2
        for partition in range(self.partitions):
            self._put(f"state/0/{partition}/{version}.changelog", f"changes {version}")
        self.batch += 1
        self._put(f"commits/{self.batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    def run(self, batches: int = 1) -> None:
        for _ in range(batches):
            self.plan()
            self.commit()

    def snapshot(self) -> None:
        version = self.batch + 1
        for partition in range(self.partitions):
            store = f"state/0/{partition}"
            name = f"{version}-{partition}.sst"
            self._put(f"{store}/SSTs/{name}", f"rows of {version}")
            self._put(f"{store}/{version}.zip", snapshot({name: len(f"rows of {version}")}))

    def purge(self, keep: int) -> None:
        """Delete what the last `keep` batches do not need; keep state from a snapshot on."""
        oldest = self.batch - keep
        for path in list(self.files):
            inside = path.removeprefix(f"{self.root}/")
            folder, _, name = inside.rpartition("/")
            number = name.partition(".")[0]
            if folder in ("offsets", "commits") and int(number) < oldest:
                del self.files[path]
            elif folder.startswith("state/0/") and number.isdecimal():
                snapshots = [
                    int(other.rpartition("/")[2].partition(".")[0])
                    for other in self.files
                    if other.startswith(f"{self.root}/{folder}/") and other.endswith(".zip")
                ]
                base = max((each for each in snapshots if each <= oldest + 1), default=0)
                if int(number) < base:
                    del self.files[path]
