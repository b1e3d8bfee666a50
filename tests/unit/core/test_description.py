from stoker.core.description import describe, to_json
from stoker.core.graph import (
    Artifact,
    ArtifactKind,
    Environment,
    FormatRead,
    FormatWrite,
    JobGraph,
    PythonFunction,
    RestartPolicy,
    Sink,
    Source,
    Sql,
    Transform,
)
from stoker.core.ids import JobId
from stoker.core.values import decode_json

GRAPH = JobGraph(
    job_id=JobId("0" * 32),
    name="orders",
    vertices=(
        Source(
            name="raw",
            read=FormatRead(
                format="jdbc",
                options={"url": "jdbc:x", "dbtable": "t", "password": "hunter2"},
            ),
        ),
        Transform(
            name="clean",
            inputs=("raw",),
            compute=PythonFunction(name="clean", payload=b"\x80\x00", parameters=("raw",)),
            materialized=True,
        ),
        Transform(name="both", inputs=("raw", "clean"), compute=Sql(query="SELECT\n  1")),
        Sink(name="out", input="both", write=FormatWrite(format="csv", path="o"), mode="append"),
    ),
    parameters={"day": "2026-11-01", "api_token": "abc"},
    artifacts=(Artifact(name="a.py", kind=ArtifactKind.PYTHON, sha256="ab" * 32, size=2048),),
    environment=Environment(python="3.11", libraries={"pyspark": "4.3.0"}),
    restart=RestartPolicy(strategy="fixed-delay", attempts=3),
)


def test_the_text_shows_regions_as_trees_and_hides_secrets() -> None:
    assert describe(GRAPH) == (
        "orders  (batch)\n"
        "parameters:\n"
        "  api_token = ******\n"
        "  day = 2026-11-01\n"
        "restart: fixed-delay, at most 3 restarts, each after 1 s\n"
        "artifacts:\n"
        "  a.py  python, 2.0 KiB, sha256 abababababab…\n"
        "environment: Python 3.11, pyspark 4.3.0\n"
        "\n"
        "region 1 of 2: clean  (batch)\n"
        "  clean  transform: function clean, 2 bytes, materialized\n"
        "  └─ raw  source: jdbc, dbtable=t, password=******, url=jdbc:x\n"
        "\n"
        "region 2 of 2: out  (batch)\n"
        "  out  sink: csv o, mode append\n"
        "  └─ both  transform: SELECT 1\n"
        "     ├─ raw  source: jdbc, dbtable=t, password=******, url=jdbc:x\n"
        "     └─ clean  reads the materialized result\n"
    )


def test_json_gives_the_graph_back() -> None:
    assert decode_json(to_json(GRAPH), JobGraph) == GRAPH
    assert decode_json(to_json(GRAPH, indent=2), JobGraph) == GRAPH
