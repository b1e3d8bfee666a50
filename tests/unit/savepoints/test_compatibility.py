"""What may change between a savepoint and the job that starts from it."""

import msgspec
import pytest

from stoker.core.errors import IncompatibleSavepoint
from stoker.core.graph import FormatWrite, JobGraph, PythonFunction, Sink, Sql, Transform
from stoker.savepoints.compatibility import CompatibilityVerdict, compare
from stoker.savepoints.manifest import SavedOperator, SavedQuery, SavepointManifest
from unit.savepoints.checkpoint_files import JOB, streaming_graph


def manifest_of(*regions: str, stateful: bool = True) -> SavepointManifest:
    operators = (SavedOperator(id=0, name="stateStoreSave", partitions=2),) if stateful else ()
    queries = [
        SavedQuery(
            region=region,
            directory=f"queries/{region}",
            batch_id=3,
            shuffle_partitions=2,
            state_provider="RocksDBStateStoreProvider",
            operators=operators,
        )
        for region in regions
    ]
    return SavepointManifest(
        savepoint_id="one",
        kind="savepoint",
        job_id=JOB,
        job_name="words",
        created_at=1,
        queries=tuple(queries),
        files=(),
    )


def refusals(saved: JobGraph, new: JobGraph, *, stateful: bool = True, allow: bool = False):
    regions = [vertex.name for vertex in saved.vertices if isinstance(vertex, Sink)]
    found = compare(manifest_of(*regions, stateful=stateful), saved, new)
    return [str(each) for each in found.refusals(allow_non_restored_state=allow)]


def grouped(keys: str, mode: str = "update") -> JobGraph:
    query = f"SELECT word, count(*) FROM raw GROUP BY {keys}"
    transform = Transform(name="counted", inputs=("raw",), compute=Sql(query=query))
    sink = Sink(name="out", input="counted", write=FormatWrite(format="noop"), mode=mode)
    base = streaming_graph()
    return msgspec.structs.replace(base, vertices=(*base.vertices, transform, sink))


def test_a_savepoint_fits_the_unchanged_job():
    found = compare(manifest_of("out"), streaming_graph("out"), streaming_graph("out"))
    assert [finding.verdict for finding in found.findings] == [CompatibilityVerdict.FITS]


def test_a_sink_that_is_gone_leaves_state_behind_only_when_that_is_allowed():
    """Otherwise the refusal names what is missing (CKPT-13)."""
    saved, new = streaming_graph("out", "more"), streaming_graph("out")
    assert "no sink of that name" in refusals(saved, new)[0]
    assert refusals(saved, new, allow=True) == []


def test_a_new_sink_starts_from_scratch():
    found = compare(manifest_of("out"), streaming_graph("out"), streaming_graph("out", "more"))
    assert "starts from scratch" in next(
        str(f) for f in found.findings if f.verdict is CompatibilityVerdict.NOTE
    )
    assert found.refusals(allow_non_restored_state=False) == []


def test_a_source_cannot_be_added_or_removed():
    one = streaming_graph("out")
    joined = Transform(name="both", inputs=("raw", "more"), compute=Sql(query="SELECT 1"))
    sink = Sink(name="out", input="both", write=FormatWrite(format="noop"))
    sources = streaming_graph(sources=("raw", "more")).vertices
    two = msgspec.structs.replace(one, vertices=(*sources, joined, sink))
    assert any("source more is new" in words for words in refusals(one, two))
    assert any("source more is gone" in words for words in refusals(two, one))


def test_changed_grouping_keys_are_refused():
    """Permission to leave state behind changes nothing about state that is read (CKPT-13)."""
    assert refusals(grouped("word"), grouped("WORD")) == []
    for allow in (False, True):
        assert "groups by word,n" in refusals(grouped("word"), grouped("word, n"), allow=allow)[0]
    assert refusals(grouped("word"), grouped("word, n"), stateful=False) == []


def test_a_changed_function_gets_a_note_that_its_state_is_compared_at_the_start():
    """The columns by which a function groups cannot be seen before the start."""
    saved, new = by_function(b"one"), by_function(b"two")
    assert refusals(saved, new) == []
    found = compare(manifest_of("out"), saved, new)
    (note,) = [
        finding for finding in found.findings if finding.verdict is CompatibilityVerdict.NOTE
    ]
    assert "the columns and types of its state are compared when it starts" in str(note)
    assert [f.verdict for f in compare(manifest_of("out"), saved, saved).findings] == [
        CompatibilityVerdict.FITS
    ]


def by_function(payload: bytes) -> JobGraph:
    compute = PythonFunction(name="counted", payload=payload, parameters=("raw",))
    transform = Transform(name="counted", inputs=("raw",), compute=compute)
    sink = Sink(name="out", input="counted", write=FormatWrite(format="noop"), mode="update")
    base = streaming_graph()
    return msgspec.structs.replace(base, vertices=(*base.vertices, transform, sink))


def test_the_output_mode_of_a_stateful_query_must_stay():
    assert "output mode is complete" in refusals(grouped("word"), grouped("word", "complete"))[0]


def test_another_number_of_partitions_requires_a_repartition():
    saved = streaming_graph("out")
    new = streaming_graph("out", configuration={"spark.sql.shuffle.partitions": "8"})
    assert "stoker savepoint repartition PATH 8" in refusals(saved, new)[0]
    assert refusals(saved, new, stateful=False) == []
    same = streaming_graph("out", configuration={"spark.sql.shuffle.partitions": "2"})
    assert refusals(saved, same) == []


def test_state_with_an_unknown_number_of_partitions_fits_any_number():
    manifest = manifest_of("out")
    unknown = msgspec.structs.replace(
        manifest.queries[0], batch_id=None, shuffle_partitions=None, state_provider=None
    )
    settings = {
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.streaming.stateStore.providerClass": "a.RocksDBStateStoreProvider",
    }
    new = streaming_graph("out", configuration=settings)
    found = compare(
        msgspec.structs.replace(manifest, queries=(unknown,)), streaming_graph("out"), new
    )
    assert found.refusals(allow_non_restored_state=False) == []


def test_a_batch_job_cannot_start_from_a_savepoint():
    batch = msgspec.structs.replace(streaming_graph(), vertices=())
    with pytest.raises(IncompatibleSavepoint, match="no streaming query"):
        compare(manifest_of("out"), streaming_graph("out"), batch).check(
            "/saved/one", allow_non_restored_state=True
        )
