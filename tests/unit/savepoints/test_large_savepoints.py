"""Large manifests and graphs are encoded and decoded beside the loop."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stoker.core.errors import UnusableSavepoint
from stoker.core.graph import JobGraph
from stoker.core.ids import RegionId
from stoker.savepoints import locations, restore, take
from stoker.savepoints.locations import LARGEST_ON_LOOP, locate, read_manifest
from stoker.savepoints.manifest import (
    GRAPH,
    MANIFEST,
    SavedFile,
    SavepointManifest,
    decode_manifest,
    encode_graph,
    encode_manifest,
)
from stoker.savepoints.restore import saved_graph
from stoker.savepoints.take import SavepointHeader, SavepointWriter
from stoker.storage.memory import MemoryStorage
from unit.savepoints.checkpoint_files import JOB, FakeQuery, streaming_graph

FILES = 2_000


def large_manifest() -> SavepointManifest:
    return SavepointManifest(
        savepoint_id="one",
        kind="savepoint",
        job_id=JOB,
        job_name="job",
        created_at=1,
        queries=(),
        files=tuple(
            SavedFile(path=f"queries/out/state/0/{number}/1.delta", size=number, sha256="0" * 64)
            for number in range(FILES)
        ),
        owner="ana",
    )


def large_graph() -> JobGraph:
    graph = streaming_graph("out")
    return msgspec.structs.replace(graph, parameters={"text": "x" * LARGEST_ON_LOOP})


async def saved(manifest: bytes) -> MemoryStorage:
    storage = MemoryStorage()
    await storage.write(f"one/{MANIFEST}", manifest)
    await storage.write(f"one/{GRAPH}", encode_graph(large_graph()))
    return storage


class Threads:
    """The threads on which a function of a module was called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        self.names: set[str] = set()
        function: Callable[..., Any] = getattr(module, name)

        def noting(*args: Any) -> Any:
            self.names.add(threading.current_thread().name)
            return function(*args)

        monkeypatch.setattr(module, name, noting)


async def test_a_large_savepoint_is_decoded_on_a_thread_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = await saved(encode_manifest(large_manifest()))
    location = locate("/saved/one", lambda _url: storage)
    of_manifest = Threads(monkeypatch, locations, "decode_manifest")
    of_graph = Threads(monkeypatch, restore, "decode_graph")
    assert await read_manifest(location) == large_manifest()
    assert await saved_graph(location) == large_graph()
    assert of_manifest.names == of_graph.names == {"decode-savepoint"}


async def test_a_small_savepoint_is_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations have no threads."""
    small = msgspec.structs.replace(large_manifest(), files=())
    storage = await saved(encode_manifest(small))
    of_manifest = Threads(monkeypatch, locations, "decode_manifest")
    assert await read_manifest(locate("/saved/one", lambda _url: storage)) == small
    assert of_manifest.names == {threading.main_thread().name}


async def test_a_large_manifest_is_encoded_on_that_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, target = MemoryStorage(), MemoryStorage()
    query = FakeQuery(storage, "out")
    query.partitions = 200
    query.run(3)
    of_manifest = Threads(monkeypatch, take, "encode_manifest")
    writer = SavepointWriter(
        storage,
        streaming_graph("out"),
        locate("/saved/one", lambda _url: target),
        SavepointHeader(savepoint_id="one", kind="savepoint", at=1),
    )
    manifest = await writer.write([RegionId("out")])
    assert len(encode_manifest(manifest)) > LARGEST_ON_LOOP
    assert of_manifest.names == {"decode-savepoint"}


async def test_many_large_manifests_take_one_thread_and_no_common_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = await saved(encode_manifest(large_manifest()))
    location = locate("/saved/one", lambda _url: storage)
    may_end, has_begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    begun: list[str] = []

    def hold(content: bytes, path: str) -> SavepointManifest:
        # On the loop it would wait for ever.
        assert threading.current_thread() is not threading.main_thread()
        begun.append(path)
        loop.call_soon_threadsafe(has_begun.set)
        may_end.wait()
        return decode_manifest(content, path)

    monkeypatch.setattr(locations, "decode_manifest", hold)
    reads = [asyncio.create_task(read_manifest(location)) for _ in range(20)]
    await has_begun.wait()
    assert await asyncio.to_thread(lambda: 7) == 7
    assert len(begun) == 1
    may_end.set()
    assert set(await asyncio.gather(*reads)) == {large_manifest()}


async def test_a_damaged_file_in_a_large_manifest_is_refused() -> None:
    content = encode_manifest(large_manifest()).replace(b'"size": 1999', b'"size": "?"')
    storage = await saved(content)
    with pytest.raises(UnusableSavepoint, match="cut off or not a manifest"):
        await read_manifest(locate("/saved/one", lambda _url: storage))
