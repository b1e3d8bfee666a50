"""Regions: the units of a job that are scheduled, and how many of them can run at once.

A region is a sink (or a script, a program, or a materialized vertex) with the ancestors it needs.
It is cut at materialized vertices: these are regions of their own, and their stored result is read
instead of being computed again. Everything here is pure.
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
    """Names in topological order; the region's own end is the last one."""
    reads: frozenset[RegionId]
    """Regions whose materialized result this one reads: they must finish before it starts."""
    streaming: bool


def regions_of(graph: JobGraph) -> tuple[Region, ...]:
    """The regions of a valid graph; a region comes after those it reads."""
    by_name = {vertex.name: vertex for vertex in graph.vertices}
    ends = [
        vertex.name
        for vertex in topological(graph)
        if isinstance(vertex, Sink | SqlScript | Program) or is_materialized(vertex)
    ]
    return tuple(_region_ending_at(by_name, end) for end in ends)


def topological(graph: JobGraph) -> tuple[Vertex, ...]:
    """The vertices, each after its inputs; the order is stable."""
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
    """Depth first, on an explicit stack: a chain can be longer than Python's recursion limit."""
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
    """The most slots that the job can use at once, within the limit that it sets itself."""
    wanted = _widest(regions_of(graph))
    return wanted if graph.slots is None else min(wanted, graph.slots)


def slots_together(graph: JobGraph) -> int:
    """Fewest slots the job can start with: its streaming regions start together or not at all."""
    return sum(region.streaming for region in regions_of(graph))


def _widest(regions: Sequence[Region]) -> int:
    """Size of the largest set of regions in which none waits for another.

    By Dilworth's theorem it is the number of regions minus the size of a largest matching between
    regions and later regions.
    """
    later = _later_regions(regions)
    matched: dict[RegionId, RegionId] = {}
    return len(regions) - sum(_match(region.id, later, matched, set()) for region in regions)


def _later_regions(regions: Sequence[Region]) -> dict[RegionId, list[RegionId]]:
    """For each region, those that can run only after it. `regions` has inputs first."""
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
    """Match `start` along an augmenting path: partners of other regions may change."""
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
    """Flip the augmenting path from `start` to `free`: each region on it gets the next partner."""
    partner = free
    while True:
        region = came_from[partner]
        previous = next((p for p, r in matched.items() if r == region), None)
        matched[partner] = region
        if region == start or previous is None:
            return
        partner = previous
