"""Relative paths of files mean the folder of the command; all else stays as it was."""

from pathlib import Path

import pytest

from stoker.core.graph import FormatRead, FormatWrite, Sink, Source, Sql
from stoker.pipeline.load import with_absolute_paths
from stoker.testing.rest import new_graph


@pytest.mark.parametrize(
    ("read", "path"),
    [
        (FormatRead(format="json", path="in/x"), "/here/in/x"),
        (FormatRead(format="JSON", path="in/*.json"), "/here/in/*.json"),
        (FormatRead(format="json", path="/in"), "/in"),
        (FormatRead(format="json", path="s3://bucket/in"), "s3://bucket/in"),
        (FormatRead(format="json", path="file:/in"), "file:/in"),
        (FormatRead(format="iceberg", path="db.table"), "db.table"),
        (FormatRead(format="rate"), None),
    ],
)
def test_a_path_is_made_absolute_where_it_names_files(read: FormatRead, path: str | None) -> None:
    sink = Sink(name="b", input="a", write=FormatWrite(format="csv", path="out"))
    graph = new_graph(vertices=(Source(name="a", read=read), sink))
    located = with_absolute_paths(graph, Path("/here"))
    assert located.vertex("a").read.path == path
    assert located.vertex("b").write.path == "/here/out"


def test_queries_stay_as_they_are() -> None:
    graph = new_graph(vertices=(Source(name="a", read=Sql(query="SELECT 1")),))
    assert with_absolute_paths(graph, Path("/here")) == graph
