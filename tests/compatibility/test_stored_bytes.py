"""Each release reads the bytes that earlier releases stored, and the bytes keep their meaning.

Each release has a folder, laid out like the coordinator and the storage. A release that stores
something new gets a module and a folder of its own (see `write.py`); existing ones never change.
"""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from stoker import __version__
from stoker.core.checks.validation import validate
from stoker.core.errors import CorruptContent
from stoker.core.graph import JobGraph
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.core.values import Value, decode_value
from stoker.engine.region.materialize import _ManifestRecord
from stoker.events.layout import EventIndex, RecentEvents, SegmentContent
from stoker.events.settings import NotedSettings
from stoker.ha import keys
from stoker.ha.coordinator import Create
from stoker.ha.election import Candidacy
from stoker.ha.masters import MasterRecord
from stoker.ha.publication import LeaderAddress
from stoker.ha.record import StoredRecord, decode_record, encode
from stoker.ha.stores.attempts import AttemptRecord
from stoker.ha.stores.cancellations import CancellationRecord
from stoker.ha.stores.job_graphs import IdempotencyRecord, JobRecord, graph_digest
from stoker.ha.stores.job_results import ResultRecord, _AcceptedJob
from stoker.ha.stores.query_results import _QueryResultRecord
from stoker.ha.stores.replacements import ReplacementRecord
from stoker.ha.stores.shutdowns import ShutdownRecord
from stoker.ha.stores.storage_records import _OutcomeRecord, _PublicationRecord
from stoker.testing.simulated_cluster import SimulatedCluster
from stoker.testing.virtual_time import run_virtual

HERE = Path(__file__).parent
RELEASES = sorted(folder.name for folder in HERE.iterdir() if (folder / "coordinator").is_dir())

RECORD_TYPES: dict[str, type[StoredRecord]] = {
    "jobs": JobRecord,
    "idempotency": IdempotencyRecord,
    "results": ResultRecord,
    "wishes": CancellationRecord,
    "attempts": AttemptRecord,
    "leader": LeaderAddress,
    "election": Candidacy,
    "epoch": Candidacy,
    "masters": MasterRecord,
    "replacements": ReplacementRecord,
    "shutdown": ShutdownRecord,
    keys.RECENT_EVENTS: RecentEvents,
    keys.EVENT_INDEX: EventIndex,
    keys.NOTED_SETTINGS: NotedSettings,
}
"""By key, or by the first part of the keys that hold such records."""
EPHEMERAL = ("leader", "election", "masters")


def values_of(release: str) -> ModuleType:
    return importlib.import_module(f"compatibility.release_{release.replace('.', '_')}")


def read_stored(release: str, where: str) -> dict[str, bytes]:
    folder = HERE / release / where
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def type_at_coordinator(key: str) -> type[StoredRecord]:
    return RECORD_TYPES.get(key) or RECORD_TYPES[key.split("/", maxsplit=1)[0]]


def type_in_storage(path: str) -> type[Value] | None:
    """The type of a stored file; None for artifacts, which are the user's bytes."""
    if path.startswith(f"{keys.EVENTS_FOLDER}/"):
        return SegmentContent
    folder, _, inside = path.split("/", 2)
    if folder == "jobs" and "/.publications/" in inside:
        return _PublicationRecord
    if folder == "jobs" and inside.startswith("materialized/"):
        return _ManifestRecord
    if folder == "jobs":
        return JobGraph if inside.startswith("graph/") else _OutcomeRecord
    if folder == "rows":
        return _QueryResultRecord if inside.endswith("/result.json") else None
    return JobDetails if folder == "results" else None


def decode_stored(release: str) -> Iterator[tuple[str, bytes, Any]]:
    for key, content in read_stored(release, "coordinator").items():
        yield key, content, decode_record(content, type_at_coordinator(key), key)
    for path, content in read_stored(release, "storage").items():
        kind = type_in_storage(path)
        yield path, content, content if kind is None else decode_value(content, kind, path)


def is_part_of(old: Any, new: Any) -> bool:
    """Whether every field of `old` is still in `new`, under the same name."""
    match old, new:
        case dict(), dict():
            return all(name in new and is_part_of(old[name], new[name]) for name in old)
        case list(), list():
            return len(old) == len(new) and all(map(is_part_of, old, new))
        case _:
            return bool(old == new)


def test_the_current_release_has_stored_bytes() -> None:
    assert ".".join(__version__.split(".")[:2]) in RELEASES, "run: python -m compatibility.write"


@pytest.mark.parametrize("release", RELEASES)
def test_every_file_still_loads_and_means_the_same(release: str) -> None:
    values = values_of(release)
    expected = {**values.COORDINATOR, **values.STORAGE}
    found = {name: value for name, _, value in decode_stored(release) if name in expected}
    assert found == expected
    assert len(found) == sum(1 for _ in decode_stored(release)), "a key or path was renamed"


@pytest.mark.parametrize("release", RELEASES)
def test_rewriting_a_record_loses_no_field(release: str) -> None:
    for name, content, value in decode_stored(release):
        if not isinstance(value, bytes):
            assert is_part_of(json.loads(content), json.loads(encode(value))), name


def test_every_kind_of_record_has_stored_bytes() -> None:
    kinds = {type(value) for release in RELEASES for _, _, value in decode_stored(release)}
    # _AcceptedJob reads a part of a job's record and is never stored.
    expected = set(StoredRecord.__subclasses__()) - {_AcceptedJob}
    ours = {kind for kind in expected if kind.__module__.startswith("stoker.")}
    assert ours <= kinds


@pytest.mark.parametrize("release", RELEASES)
def test_a_record_of_a_later_version_is_refused_with_an_explanation(release: str) -> None:
    """After a rolled-back upgrade the older release reports the version instead of guessing."""
    for key, content in read_stored(release, "coordinator").items():
        later = json.dumps(json.loads(content) | {"v": 2}).encode()
        with pytest.raises(CorruptContent, match="version 2"):
            decode_record(later, type_at_coordinator(key), key)


@pytest.mark.parametrize("release", RELEASES)
def test_fields_of_a_later_release_are_ignored(release: str) -> None:
    """A master of the next release may lead while a master of this release is on standby."""
    for key, content in read_stored(release, "coordinator").items():
        kind = type_at_coordinator(key)
        later = json.dumps(json.loads(content) | {"added-later": {"x": 1}}).encode()
        assert decode_record(later, kind, key) == decode_record(content, kind, key)


def test_a_field_added_later_does_not_change_the_digest_of_a_graph() -> None:
    """With a changed digest, every job would go to quarantine at an upgrade."""

    class NextGraph(JobGraph, frozen=True, kw_only=True):
        priority: int = 0
        tags: tuple[str, ...] = ()

    graph = values_of("0.1").BATCH_GRAPH
    later = msgspec.json.decode(encode(graph), type=NextGraph)
    assert graph_digest(later) == graph_digest(graph)
    assert graph_digest(msgspec.structs.replace(later, priority=1)) != graph_digest(graph)


@pytest.mark.parametrize("release", RELEASES)
def test_graphs_are_still_accepted(release: str) -> None:
    for _, _, value in decode_stored(release):
        if isinstance(value, JobGraph):
            validate(value, max_bytes=1 << 20)


def test_jobs_stored_by_0_1_are_recovered_and_run(tmp_path: Path) -> None:
    """All masters were upgraded while these jobs were on record (RUN-08, DISP-13)."""
    values = values_of("0.1")

    async def scenario() -> None:
        cluster = SimulatedCluster(1, tmp_path)
        session = cluster.coordination.session()
        for key, content in read_stored("0.1", "coordinator").items():
            if key.split("/")[0] not in EPHEMERAL:
                await session.commit([Create(key, content)])
        cluster.storage.files.update(read_stored("0.1", "storage"))
        await session.close()
        async with cluster.running():
            assert await cluster.ask(lambda dispatcher: dispatcher.quarantined()) == []
            assert await cluster.wait_for_end(values.BATCH) is JobStatus.FINISHED
            assert await cluster.wait_for_end(values.SCRIPT) is JobStatus.FINISHED
            assert await cluster.wait_for_end(values.PROGRAM) is JobStatus.FINISHED
            assert await cluster.wait_for_end(values.STREAM) is JobStatus.CANCELED
            failed = await cluster.ask(lambda dispatcher: dispatcher.job_details(values.FAILED))
            assert failed == values.DETAILS
            again = await cluster.ask(lambda d: d.submit_job(values.BATCH_GRAPH))
            assert (again.job_id, again.repeated) == (values.BATCH, True)
            run = {(span.job_id, span.region) for span in cluster.history.attempts}
            assert (values.BATCH, "report") in run
            assert (values.BATCH, values.DONE_REGION) not in run, "its outcome was already recorded"
            assert keys.job(values.BATCH) not in cluster.coordination.all_keys()

    run_virtual(scenario, seed=1)
