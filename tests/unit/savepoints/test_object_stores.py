"""Checkpoints and savepoints in a store without directories, links and renames."""

import secrets

import pytest

from stoker.core.errors import UnusableSavepoint
from stoker.core.ids import JobId, RegionId
from stoker.savepoints.catalog import dispose, list_savepoints
from stoker.savepoints.examination import cut_back, examine
from stoker.savepoints.layout import cut_at, layout_of
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.restore import restore, verify
from stoker.savepoints.take import SavepointHeader, SavepointWriter, checkpoint_folder
from stoker.storage.contract import Storage
from stoker.storage.memory import MemoryStorage
from stoker.storage.open import open_place
from unit.savepoints.checkpoint_files import FakeQuery, streaming_graph

OTHER = JobId("b" * 32)


class Bucket:
    """The storage of a cluster and its savepoints, both in an object store."""

    def __init__(self) -> None:
        self.root = f"memory://{secrets.token_hex(4)}"
        self.cluster = open_place(f"{self.root}/cluster")
        self.saved = f"{self.root}/saved"

    async def begin(self) -> None:
        written = MemoryStorage()
        query = FakeQuery(written, "out")
        query.run(2)
        query.snapshot()
        query.run(2)
        for path, content in written.files.items():
            await self.cluster.write(path, content)

    async def take(self, name: str) -> str:
        path = f"{self.saved}/{name}"
        header = SavepointHeader(savepoint_id=name, kind="savepoint", at=1)
        writer = SavepointWriter(
            self.cluster, streaming_graph("out"), locate(path, open_place), header
        )
        await writer.write([RegionId("out")])
        return path


@pytest.fixture
async def bucket() -> Bucket:
    made = Bucket()
    await made.begin()
    return made


async def names_in(storage: Storage, folder: str) -> list[str]:
    return [path.removeprefix(f"{folder}/") for path in await storage.list(folder)]


async def test_a_savepoint_is_taken_shown_restored_and_disposed_of(bucket: Bucket):
    path = await bucket.take("one")
    location = locate(path, open_place)
    manifest = await read_manifest(location)
    assert manifest.batches == {"out": 3}
    assert await verify(location, manifest) == []
    assert [each.path for each in await list_savepoints(bucket.saved, open_place)] == [path]
    assert not [name for name in await bucket.cluster.list("jobs") if "/pins/" in name]
    await restore(location, manifest, bucket.cluster, OTHER, regions=["out"], now=2)
    restored = await names_in(bucket.cluster, checkpoint_folder(OTHER, "out"))
    assert cut_at(layout_of(restored), 3).gaps == ()
    await dispose(path, open_place, bucket.cluster)
    assert await list_savepoints(bucket.saved, open_place) == []
    with pytest.raises(UnusableSavepoint, match="there is no such directory"):
        await read_manifest(location)


async def test_damage_is_found_and_a_copy_without_it_is_made(bucket: Bucket):
    path = await bucket.take("one")
    location = locate(path, open_place)
    await location.parent.delete("one/queries/out/state/0/1/4.changelog")
    examination = await examine(path, open_place)
    assert examination.wrong_files == ("its file queries/out/state/0/1/4.changelog is missing",)
    assert examination.queries[0].last_good == 2
    await cut_back(examination, f"{bucket.root}/cut/copy", open_place)
    copy = await examine(f"{bucket.root}/cut/copy/queries/out", open_place)
    assert copy.is_sound
    assert copy.queries[0].last_good == 2
