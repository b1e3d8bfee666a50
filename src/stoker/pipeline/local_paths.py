"""Relative paths in a job mean the directory in which it was submitted, wherever it runs."""

from pathlib import Path
from typing import TypeVar

import msgspec

from stoker.core.formats import known_format
from stoker.core.graph import FormatRead, FormatWrite, JobGraph, Sink, Source, Vertex

Access = TypeVar("Access", FormatRead, FormatWrite)


def with_absolute_paths(graph: JobGraph, directory: Path) -> JobGraph:
    vertices = tuple(_located(vertex, directory) for vertex in graph.vertices)
    return msgspec.structs.replace(graph, vertices=vertices)


def _located(vertex: Vertex, directory: Path) -> Vertex:
    match vertex:
        case Source(read=FormatRead() as read):
            return msgspec.structs.replace(vertex, read=_with_path(read, directory))
        case Sink(write=FormatWrite() as write):
            return msgspec.structs.replace(vertex, write=_with_path(write, directory))
        case _:
            return vertex


def _with_path(access: Access, directory: Path) -> Access:
    known = known_format(access.format)
    # What the path of a foreign format means is not ours to say.
    if not access.path or ":/" in access.path or known is None or not known.files:
        return access
    return msgspec.structs.replace(access, path=str(directory / access.path))
