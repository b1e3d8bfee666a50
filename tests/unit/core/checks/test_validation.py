"""Every fault in a job graph gets a message that says what is wrong, where, and what to do."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.checks.validation import faults_of, job_type_of, validate
from stoker.core.errors import InvalidJobGraph
from stoker.core.graph import (
    Artifact,
    ArtifactKind,
    EngineKind,
    FormatRead,
    FormatWrite,
    JobGraph,
    JobType,
    PythonFunction,
    RestartPolicy,
    Sink,
    Source,
    Sql,
    SqlScript,
    Transform,
    Vertex,
)
from stoker.core.ids import JobId
from stoker.core.regions import regions_of

JOB_ID = JobId("0123456789abcdef" * 2)


def source(name: str = "raw", **fields: object) -> Source:
    read = fields.pop("read", FormatRead(format="parquet", path="in"))
    return Source(name=name, read=read, **fields)  # type: ignore[arg-type]


def transform(name: str, *inputs: str, **fields: object) -> Transform:
    return Transform(name=name, inputs=inputs, compute=Sql(query="SELECT 1"), **fields)  # type: ignore[arg-type]


def sink(name: str = "out", of: str = "raw", **fields: object) -> Sink:
    write = fields.pop("write", FormatWrite(format="parquet", path="out"))
    return Sink(name=name, input=of, write=write, **fields)  # type: ignore[arg-type]


def graph(*vertices: Vertex, **fields: object) -> JobGraph:
    return JobGraph(**{"job_id": JOB_ID, "name": "job", "vertices": vertices, **fields})  # type: ignore[arg-type]


def messages(*vertices: Vertex, **fields: object) -> list[str]:
    return [str(fault) for fault in faults_of(graph(*vertices, **fields))]


def test_a_good_graph_has_no_fault() -> None:
    assert messages(source(), transform("t", "raw"), sink(of="t")) == []


def test_a_cycle_is_named_in_the_direction_of_the_data() -> None:
    told = messages(source(), transform("a", "b", "raw"), transform("b", "a"), sink(of="b"))
    assert told == ["vertex 'a': it needs its own result: a → b → a (remove one of these edges)"]


def test_a_vertex_that_reads_itself_is_a_cycle() -> None:
    assert "it needs its own result: a → a" in messages(transform("a", "a"), sink(of="a"))[0]


def test_an_unknown_input_is_refused_with_a_suggestion() -> None:
    told = messages(source(), sink(of="raww"), sink("second", of="raw"))
    assert told == ["sink 'out': unknown input 'raww' (did you mean 'raw'?)"]


def test_a_sink_cannot_be_read() -> None:
    told = messages(source(), sink(), sink("second", of="out"))
    assert "sink 'second': input 'out' is a sink (only sources and transforms can be read)" in told


def test_a_duplicate_name_is_reported_once() -> None:
    told = messages(source(), source(), sink())
    assert told == [
        "vertex 'raw': the name is used 2 times "
        "(give every source, transform and sink a name of its own)"
    ]


def test_names_that_differ_only_in_case_are_refused() -> None:
    told = messages(source("raw"), source("Raw"), sink(of="raw"), sink("b", of="Raw"))
    assert told == [
        "vertex 'Raw': 'Raw', 'raw' differ only in upper and lower case "
        "(Spark cannot tell them apart: rename one)"
    ]


def test_a_graph_without_a_sink_would_do_nothing() -> None:
    assert messages(source()) == ["job: it has no sink, so it would do nothing (add a sink)"]


def test_an_empty_graph_is_refused() -> None:
    assert messages() == ["job: it has no sink, so it would do nothing (add a sink)"]


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_refused(name: str) -> None:
    assert "the name is empty" in messages(source(name), sink(of=name))[0]


@pytest.mark.parametrize("name", ["a b", "a-b", "1a", "a/b", "..", "ä", "a\n"])
def test_characters_that_a_view_cannot_have_are_refused(name: str) -> None:
    told = messages(source(name), sink(of=name))
    assert told == [
        f"source '{name}': the name has characters that are not allowed "
        "(use letters, digits and '_', beginning with a letter or '_')"
    ]


@pytest.mark.parametrize("name", ["spark", "params"])
def test_the_names_of_arguments_are_reserved(name: str) -> None:
    assert "is reserved for the argument of that name" in messages(source(name), sink(of=name))[0]


def test_a_name_that_is_too_long_is_refused() -> None:
    assert "the name is too long" in messages(source("a" * 101), sink(of="a" * 101))[0]


def test_a_vertex_that_no_sink_uses_is_refused() -> None:
    told = messages(source(), source("other"), sink())
    assert told == ["source 'other': it is not used by any sink (remove it, or add a sink for it)"]


def test_a_transform_without_input_is_refused() -> None:
    assert messages(transform("t"), sink(of="t")) == [
        "transform 't': it has no input (name its inputs, or make it a source)"
    ]


@pytest.mark.parametrize(
    ("option", "remedy"),
    [("heeder", "did you mean 'header'?"), ("infer_schema", "did you mean 'inferSchema'?")],
)
def test_an_unknown_format_option_is_refused_with_a_suggestion(option: str, remedy: str) -> None:
    read = FormatRead(format="csv", path="in", options={option: "true"})
    assert messages(source(read=read), sink()) == [
        f"source 'raw': unknown option '{option}' of format csv ({remedy})"
    ]


def test_options_are_compared_without_regard_to_case() -> None:
    read = FormatRead(format="CSV", path="in", options={"HEADER": "true"})
    assert messages(source(read=read), sink()) == []


def test_an_unknown_format_accepts_any_option() -> None:
    read = FormatRead(format="delta", options={"versionAsOf": "3"})
    assert messages(source(read=read), sink()) == []


def test_a_driver_property_of_jdbc_is_accepted_and_a_typo_is_refused() -> None:
    options = {"url": "jdbc:x", "dbtable": "t", "sslmode": "require", "numPartition": "3"}
    told = messages(source(read=FormatRead(format="jdbc", options=options)), sink())
    assert told == [
        "source 'raw': unknown option 'numPartition' of format jdbc (did you mean 'numPartitions'?)"
    ]


def test_a_misspelt_format_is_refused_with_a_suggestion() -> None:
    told = messages(source(read=FormatRead(format="parqet", path="in")), sink())
    assert told == ["source 'raw': unknown format 'parqet' (did you mean 'parquet'?)"]


def test_a_missing_option_is_named() -> None:
    told = messages(source(read=FormatRead(format="jdbc", options={"url": "jdbc:x"})), sink())
    assert told == ["source 'raw': format jdbc needs option 'dbtable' or 'query' (give it)"]


def test_file_formats_need_a_path() -> None:
    told = messages(source(read=FormatRead(format="csv")), sink(write=FormatWrite(format="json")))
    assert told == [
        "source 'raw': format csv needs a path (give path=)",
        "sink 'out': format json needs a path (give path= or table=)",
    ]


def test_a_path_among_the_options_is_refused() -> None:
    read = FormatRead(format="csv", path="in", options={"path": "other"})
    assert "give path= instead" in messages(source(read=read), sink())[0]


def test_a_stream_of_files_needs_a_schema() -> None:
    read = FormatRead(format="json", path="in")
    assert messages(source(read=read, streaming=True), sink()) == [
        "source 'raw': a stream of json files needs a schema "
        "(give schema=, for example 'id LONG, at TIMESTAMP')"
    ]
    text = FormatRead(format="text", path="in")
    assert messages(source(read=text, streaming=True), sink()) == []
    inferred = {"spark.sql.streaming.schemaInference": "true"}
    assert messages(source(read=read, streaming=True), sink(), configuration=inferred) == []


def test_a_source_of_a_streaming_only_format_must_be_marked_as_streaming() -> None:
    rate = FormatRead(format="rate")
    assert messages(source(read=rate), sink()) == [
        "source 'raw': format rate is always a stream (mark the source as streaming)"
    ]


def test_a_batch_only_format_cannot_be_read_as_a_stream() -> None:
    jdbc = FormatRead(format="jdbc", options={"url": "u", "dbtable": "t"})
    assert (
        "format jdbc cannot be read as a stream"
        in messages(source(read=jdbc, streaming=True), sink())[0]
    )


def rate(**fields: object) -> Source:
    return source(read=FormatRead(format="rate"), streaming=True, **fields)


def test_a_streaming_file_sink_needs_a_path_and_append() -> None:
    told = messages(rate(), sink(write=FormatWrite(format="parquet"), mode="complete"))
    assert told == [
        "sink 'out': a streaming sink of format parquet cannot write in mode 'complete' "
        "(use append, or a function of (df, batch_id))",
        "sink 'out': format parquet needs a path (give path= or table=)",
    ]


def test_a_streaming_memory_sink_needs_a_query_name() -> None:
    assert messages(rate(), sink(write=FormatWrite(format="memory"))) == [
        "sink 'out': format memory needs option 'queryName' (give it)"
    ]


def test_a_streaming_console_sink_needs_nothing() -> None:
    assert messages(rate(), sink(write=FormatWrite(format="console"), mode="complete")) == []


def test_jdbc_has_no_streaming_sink() -> None:
    write = FormatWrite(format="jdbc", options={"url": "u", "dbtable": "t"})
    assert messages(rate(), sink(write=write)) == [
        "sink 'out': Spark has no streaming sink of format jdbc "
        "(write it with a function of (df, batch_id))"
    ]


def test_users_cannot_set_the_checkpoint_location() -> None:
    write = FormatWrite(format="parquet", path="o", options={"checkpointLocation": "c"})
    assert "Stoker keeps the checkpoint" in messages(rate(), sink(write=write))[0]


@pytest.mark.parametrize(
    ("trigger", "problem"),
    [
        ("10 secs", "'10 secs' has the unknown unit 'sec'"),
        ("soon", "'soon' is not a trigger"),
        ("", "'' is not a trigger"),
        ("-1 seconds", "'-1 seconds' is not a trigger"),
        ("10", "'10' is not a trigger"),
        ("ONCE", "'ONCE' is not a trigger"),
    ],
)
def test_a_bad_trigger_is_refused_with_the_allowed_forms(trigger: str, problem: str) -> None:
    assert messages(rate(), sink(trigger=trigger)) == [
        f"sink 'out': bad trigger: {problem} "
        "(write an interval such as '10 seconds', 'available-now' or 'once')"
    ]


def test_a_trigger_without_any_stream_is_refused() -> None:
    assert messages(source(), sink(trigger="1 second")) == [
        "sink 'out': it has a trigger, but it reads no stream "
        "(mark a source as streaming, or drop the trigger)"
    ]


def test_a_function_may_open_a_stream_by_itself() -> None:
    read = PythonFunction(name="raw", payload=b"", parameters=("spark",))
    assert messages(source(read=read), sink(trigger="1 second")) == []


def test_an_unknown_mode_is_refused_with_the_allowed_ones() -> None:
    assert messages(source(), sink(mode="overwite")) == [
        "sink 'out': mode 'overwite' is not for a batch sink "
        "(did you mean 'overwrite'? a batch sink takes append, overwrite, ignore, errorifexists)"
    ]


def test_a_stream_refuses_batch_modes_and_a_batch_job_refuses_streaming_modes() -> None:
    assert messages(rate(), sink(mode="overwrite")) == [
        "sink 'out': mode 'overwrite' is not for a streaming sink "
        "(a streaming sink takes append, update, complete)"
    ]
    assert (
        "a trigger, or a source marked as streaming" in messages(source(), sink(mode="update"))[0]
    )


def test_a_stream_cannot_be_materialized() -> None:
    told = messages(rate(), transform("t", "raw", materialized=True), sink(of="t"))
    assert told == [
        "transform 't': a stream never ends, so it cannot be materialized "
        "(drop 'materialized', or write it with a sink and read that in another job)"
    ]


def test_an_empty_query_is_refused() -> None:
    vertex = Transform(name="t", inputs=("raw",), compute=Sql(query=" \n"))
    assert messages(source(), vertex, sink(of="t")) == [
        "transform 't': the SQL query is empty (write a SELECT)"
    ]


def test_a_script_without_statement_is_refused() -> None:
    assert "it has no statement" in messages(SqlScript(name="script", statements=()))[0]


@pytest.mark.parametrize(
    ("streaming", "parameters", "told"),
    [
        (False, ("df", "batch_id"), "function 'f' of a batch sink takes 2 arguments"),
        (True, ("df",), "function 'f' of a streaming sink takes 1 arguments"),
        (True, ("df", "batch_id"), None),
        (False, ("df",), None),
        (False, ("df", "spark"), "takes 2 arguments"),
    ],
)
def test_a_sink_function_must_take_the_arguments_of_its_kind(
    streaming: bool, parameters: tuple[str, ...], told: str | None
) -> None:
    function = PythonFunction(name="f", payload=b"", parameters=parameters)
    found = messages(rate() if streaming else source(), sink(write=function))
    assert [told in message for message in found] == ([True] if told else [])


def test_a_function_parameter_without_a_value_is_refused() -> None:
    function = PythonFunction(name="f", payload=b"", parameters=("raw", "other"))
    vertex = Transform(name="t", inputs=("raw",), compute=function)
    assert messages(source(), vertex, sink(of="t")) == [
        "transform 't': function 'f' has the parameter 'other', which nothing fills "
        "(it can take params, raw, spark)"
    ]


def test_a_bad_job_id_and_an_unknown_version_are_refused() -> None:
    told = messages(source(), sink(), job_id="ABC", version=7)
    assert told == [
        "job: its graph has version 7, this cluster reads version 1 "
        "(use the client of the cluster's Stoker version)",
        "job: its id 'ABC' is not a job id "
        "(use 32 hexadecimal digits in lower case, or leave it out)",
    ]


RETENTION = "execution.checkpointing.externalized-checkpoint-retention"


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        (RETENTION, "RETAIN_ON_CANCELATION", "did you mean 'RETAIN_ON_CANCELLATION'?"),
        (RETENTION, "7 days", "known are: DELETE_ON_CANCELLATION, NO_EXTERNALIZED_CHECKPOINTS, "),
        ("parallelism.default", "0", "write a whole number of at least 1"),
        ("restart-strategy.type", "fixed-dely", "did you mean 'fixed-delay'?"),
        ("restart-strategy.fixed-delay.attempts", "many", "write a whole number"),
    ],
)
def test_a_wrong_value_of_a_jobs_option_is_refused_with_what_to_write(
    key: str, text: str, told: str
) -> None:
    [message] = messages(source(), sink(), configuration={key: text})
    assert message.startswith(f"configuration: {key} is '{text}' ({told}")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        (RETENTION.replace("retention", "retenton"), RETENTION),
        ("paralelism.default", "parallelism.default"),
        ("restart-strategy.typ", "restart-strategy.type"),
        ("restart-strategy.fixed-delay.tries", "restart-strategy.fixed-delay.attempts"),
    ],
)
def test_a_mistyped_option_of_a_job_is_refused_with_a_suggestion(key: str, meant: str) -> None:
    told = messages(source(), sink(), configuration={key: "1"})
    assert told == [f"configuration: unknown key '{key}' (did you mean '{meant}'?)"]


def test_keys_that_are_no_options_of_a_job_are_accepted() -> None:
    configuration = {"spark.sql.shuffle.partitions": "8", "rest.port": "1", "own.key": "x"}
    configuration |= {
        "execution.checkpointing.interval": "1 min",
        RETENTION: "retain-on-cancellation",
    }
    assert messages(source(), sink(), configuration=configuration) == []


def test_all_wrong_options_of_a_job_are_reported_together() -> None:
    wrong = {"parallelism.default": "x", RETENTION: "x", "restart-strategy.type": "x"}
    assert len(messages(source(), sink(), configuration=wrong)) == 3


@pytest.mark.parametrize("name", ["", " ", "a\tb", "x" * 201])
def test_a_bad_job_name_is_refused(name: str) -> None:
    assert messages(source(), sink(), name=name)[0].startswith("job: its name")


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            RestartPolicy(strategy="fixed"),
            "restart: unknown strategy 'fixed' (did you mean 'fixed-delay'?)",
        ),
        (
            RestartPolicy(attempts=-1),
            "restart: attempts is -1 (use a number of at least 0)",
        ),
        (
            RestartPolicy(multiplier=0.5),
            "restart: multiplier is 0.5 (use a number of at least 1)",
        ),
        (
            RestartPolicy(delay_seconds=float("nan")),
            "restart: delay_seconds is nan (use a number of at least 0)",
        ),
        (RestartPolicy(jitter=2), "restart: jitter is 2 (use a share between 0 and 1)"),
        (
            RestartPolicy(strategy="exponential-delay", delay_seconds=90),
            "restart: max_delay_seconds (60.0) is less than delay_seconds (90) (raise it)",
        ),
    ],
)
def test_a_restart_policy_with_bad_values_is_refused(policy: RestartPolicy, told: str) -> None:
    assert messages(source(), sink(), restart=policy) == [told]


@pytest.mark.parametrize(
    "key",
    ["spark.master", "spark.driver.memory", "spark.executor.cores", "spark.sql.warehouse.dir"],
)
def test_a_setting_of_a_whole_engine_cannot_be_set_for_one_job(key: str) -> None:
    assert messages(source(), sink(), configuration={key: "x"}) == [
        f"configuration: '{key}' holds for a whole Spark engine and cannot be set for one job "
        "(set it in the configuration of the cluster, or run the job with --engine classic)"
    ]
    assert messages(source(), sink(), configuration={key: "x"}, engine=EngineKind.CLASSIC) == []


def test_a_graph_of_50_mb_is_refused_and_its_large_vertex_is_named() -> None:
    big = PythonFunction(name="load", payload=bytes(38 * 2**20), parameters=("spark",))
    (told,) = messages(source(read=big), sink())
    assert told == (
        "source 'raw': the job's graph has 50.7 MiB, and the limit is 10.0 MiB; the largest "
        "part is source 'raw' with 50.7 MiB "
        "(put large data into a file and add it as an artifact, or read it in a source)"
    )


def test_text_that_is_not_unicode_is_refused() -> None:
    assert messages(source(), sink(), parameters={"day": "\ud800"}) == [
        "job: a text in it is not Unicode: '\\ud800' (correct the text)"
    ]


def test_two_artifacts_cannot_have_one_name() -> None:
    artifact = Artifact(name="a.py", kind=ArtifactKind.PYTHON, sha256="0" * 64, size=1)
    assert messages(source(), sink(), artifacts=(artifact, artifact)) == [
        "artifact 'a.py': 2 files have this name "
        "(rename one: all files of a job are in one directory)"
    ]


@pytest.mark.parametrize("name", ["../a.py", "", "a/b", ".."])
def test_an_artifact_cannot_be_named_like_a_path(name: str) -> None:
    artifact = Artifact(name=name, kind=ArtifactKind.FILE, sha256="0" * 64, size=1)
    assert "not the name of a file" in messages(source(), sink(), artifacts=(artifact,))[0]


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(InvalidJobGraph) as refused:
        validate(graph(source(), source("unused"), sink(of="nobody", mode="x"), name=""))
    assert len(refused.value.facts["faults"]) == 5


def test_a_job_is_streaming_as_soon_as_one_region_is() -> None:
    assert job_type_of(graph(source(), sink())) is JobType.BATCH
    mixed = graph(source(), sink(), rate(name="ticks"), sink("o2", of="ticks"))
    assert job_type_of(mixed) is JobType.STREAMING


def test_a_chain_of_thousands_of_vertices_is_checked() -> None:
    chain = [transform(f"t{i}", f"t{i - 1}" if i else "raw") for i in range(3000)]
    long = graph(source(), *reversed(chain), sink(of="t2999"))
    assert faults_of(long) == []
    (region,) = regions_of(long)
    assert region.vertices[:2] == ("raw", "t0")
    assert region.vertices[-1] == "out"


@st.composite
def acyclic_graphs(draw: st.DrawFn) -> JobGraph:
    count = draw(st.integers(1, 12))
    vertices: list[Vertex] = [source("v0", materialized=draw(st.booleans()))]
    for number in range(1, count):
        upstream = draw(st.sets(st.integers(0, number - 1), min_size=1, max_size=3))
        names = tuple(f"v{i}" for i in sorted(upstream))
        vertices.append(transform(f"v{number}", *names, materialized=draw(st.booleans())))
    used = {name for v in vertices if isinstance(v, Transform) for name in v.inputs}
    ends = [v.name for v in vertices if v.name not in used]
    extra = draw(st.sets(st.sampled_from([v.name for v in vertices]), max_size=2))
    for name in sorted({*ends, *extra}):
        vertices.append(sink(f"{name}-out", of=name))
    return graph(*draw(st.permutations(vertices)))


@given(acyclic_graphs())
def test_random_graphs_validate_and_their_regions_cover_every_vertex(job: JobGraph) -> None:
    assert faults_of(job) == []
    regions = regions_of(job)
    ends = {v.name for v in job.vertices if isinstance(v, Sink) or v.materialized}  # type: ignore[union-attr]
    assert {region.id for region in regions} == ends
    assert {name for region in regions for name in region.vertices} == {
        v.name for v in job.vertices
    }
    finished: set[str] = set()
    for region in regions:
        assert region.vertices[-1] == region.id
        assert region.reads <= finished
        finished.add(region.id)


@given(acyclic_graphs(), st.data())
def test_a_back_edge_is_always_found(job: JobGraph, data: st.DataObject) -> None:
    transforms = [v for v in job.vertices if isinstance(v, Transform)]
    if not transforms:
        return
    late = data.draw(st.sampled_from(transforms))
    first = msgspec.structs.replace(
        data.draw(
            st.sampled_from([t for t in transforms if t.name in _with_upstream(job, late.name)])
        ),
        inputs=(late.name,),
    )
    changed = msgspec.structs.replace(
        job, vertices=tuple(first if v.name == first.name else v for v in job.vertices)
    )
    assert any("it needs its own result" in str(fault) for fault in faults_of(changed))


def _with_upstream(job: JobGraph, name: str) -> set[str]:
    vertex = job.vertex(name)
    found = {name}
    if isinstance(vertex, Transform):
        for upstream in vertex.inputs:
            found |= _with_upstream(job, upstream)
    return found
