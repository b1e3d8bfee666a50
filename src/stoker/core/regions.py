"""Cutting a job graph into regions, the units that are scheduled.

A region is a sink (or a script, a program, or a materialized vertex) with the ancestors it needs,
cut at materialized vertices, which are regions of their own and are read back instead of computed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.core.graph import (
    JobGraph,
    Program,
    Sink,
    Source,
    SqlScript,
    Vertex,
    inputs_of,
    is_materialized,
)
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
    by_name = {vertex.name: vertex for vertex in graph.vertices}
    ends = [
        vertex.name
        for vertex in topological(graph)
        if isinstance(vertex, Sink | SqlScript | Program) or is_materialized(vertex)
    ]
    return tuple(_region_ending_at(by_name, end) for end in ends)


def topological(graph: JobGraph) -> tuple[Vertex, ...]:
    """Vertices so that inputs come before their readers; the order is stable."""
    by_name = {vertex.name: vertex for vertex in graph.vertices}
    names = _inputs_first(by_name, lambda name: inputs_of(by_name[name]))
    return tuple(by_name[name] for name in names)


def _region_ending_at(by_name: Mapping[str, Vertex], end: str) -> Region:
    reads: set[RegionId] = set()

    def computed_inputs(name: str) -> list[str]:
        inputs = inputs_of(by_name[name])
        reads.update(RegionId(i) for i in inputs if is_materialized(by_name[i]))
        return [i for i in inputs if not is_materialized(by_name[i])]

    members = tuple(_inputs_first([end], computed_inputs))
    last = by_name[end]
    streaming = (isinstance(last, Sink) and last.trigger is not None) or any(
        isinstance(vertex, Source) and vertex.streaming for vertex in map(by_name.get, members)
    )
    return Region(id=RegionId(end), vertices=members, reads=frozenset(reads), streaming=streaming)


def _inputs_first(starts: Iterable[str], inputs: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Depth first, with a stack of its own: a chain can be longer than Python's is deep."""
    seen: set[str] = set()
    for start in starts:
        stack: list[tuple[str, Iterator[str]]] = []
        if start not in seen:
            seen.add(start)
            stack.append((start, iter(inputs(start))))
        while stack:
            name, upstream = stack[-1]
            following = next((n for n in upstream if n not in seen), None)
            if following is None:
                stack.pop()
                yield name
            else:
                seen.add(following)
                stack.append((following, iter(inputs(following))))


def slots_wanted(graph: JobGraph) -> int:
    """The most that the job ever uses at once: what it can use, or the limit that it brings."""
    wanted = _widest(regions_of(graph))
    return wanted if graph.slots is None else min(wanted, graph.slots)


def slots_together(graph: JobGraph) -> int:
    """Streaming regions start together or not at all: fewer slots are of no use to the job."""
    return sum(region.streaming for region in regions_of(graph))


def _widest(regions: Sequence[Region]) -> int:
    """Size of the largest set of regions of which none waits for another.

    By Dilworth's theorem: all of them, less a largest matching between each region and one that
    comes after it.
    """
    later = _later_regions(regions)
    matched: dict[RegionId, RegionId] = {}
    return len(regions) - sum(_match(region.id, later, matched, set()) for region in regions)


def _later_regions(regions: Sequence[Region]) -> dict[RegionId, list[RegionId]]:
    """Those that can only run when the region has finished; inputs come first in `regions`."""
    before: dict[RegionId, set[RegionId]] = {}
    for region in regions:
        before[region.id] = set(region.reads).union(*(before[each] for each in region.reads))
    return {
        region.id: [other.id for other in regions if region.id in before[other.id]]
        for region in regions
    }


def _match(
    start: RegionId,
    later: Mapping[RegionId, Sequence[RegionId]],
    matched: dict[RegionId, RegionId],
    seen: set[RegionId],
) -> bool:
    """Find a partner for `start`, if need be by finding other partners for others."""
    came_from: dict[RegionId, RegionId] = {}
    stack = [start]
    while stack:
        region = stack.pop()
        for partner in later[region]:
            if partner in seen:
                continue
            seen.add(partner)
            came_from[partner] = region
            if partner not in matched:
                _swap(partner, start, came_from, matched)
                return True
            stack.append(matched[partner])
    return False


def _swap(
    free: RegionId,
    start: RegionId,
    came_from: Mapping[RegionId, RegionId],
    matched: dict[RegionId, RegionId],
) -> None:
    partner = free
    while True:
        region = came_from[partner]
        former = next((p for p, r in matched.items() if r == region), None)
        matched[partner] = region
        if region == start or former is None:
            return
        partner = former
