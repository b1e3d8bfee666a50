"""Cutting a job graph into regions, the units that are scheduled.

A region is a sink (or a script, or a materialized vertex) with the ancestors it needs, cut at
materialized vertices, which are regions of their own and are read back instead of computed.
"""

from dataclasses import dataclass

from stoker.core.graph import JobGraph, Sink, Source, SqlScript, Vertex, inputs_of, is_materialized
from stoker.core.ids import RegionId


@dataclass(frozen=True, kw_only=True)
class Region:
    id: RegionId
    vertices: tuple[str, ...]
    """Names in topological order, the region's own end last."""
    reads: frozenset[RegionId]
    """Regions whose materialized result this one reads: they must have finished before."""
    streaming: bool


def regions_of(graph: JobGraph) -> tuple[Region, ...]:
    """The regions of a valid graph, those that others read first."""
    ends = [
        vertex.name
        for vertex in topological(graph)
        if isinstance(vertex, Sink | SqlScript) or is_materialized(vertex)
    ]
    return tuple(_region_ending_at(graph, end) for end in ends)


def _region_ending_at(graph: JobGraph, end: str) -> Region:
    members: list[str] = []
    reads: set[RegionId] = set()
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        vertex = graph.vertex(name)
        if name != end and is_materialized(vertex):
            reads.add(RegionId(name))
            return
        for upstream in inputs_of(vertex):
            visit(upstream)
        members.append(name)

    visit(end)
    last = graph.vertex(end)
    streaming = (isinstance(last, Sink) and last.trigger is not None) or any(
        isinstance(vertex, Source) and vertex.streaming for vertex in map(graph.vertex, members)
    )
    return Region(
        id=RegionId(end), vertices=tuple(members), reads=frozenset(reads), streaming=streaming
    )


def topological(graph: JobGraph) -> tuple[Vertex, ...]:
    """Vertices so that inputs come before their readers; the order is stable."""
    order: list[Vertex] = []
    done: set[str] = set()

    def visit(name: str) -> None:
        if name in done:
            return
        done.add(name)
        vertex = graph.vertex(name)
        for upstream in inputs_of(vertex):
            visit(upstream)
        order.append(vertex)

    for vertex in graph.vertices:
        visit(vertex.name)
    return tuple(order)



