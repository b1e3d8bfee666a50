"""How many slots a job can use at the same time, before it has started. Pure."""

from collections.abc import Mapping, Sequence

from stoker.core.graph import JobGraph
from stoker.core.ids import RegionId
from stoker.core.regions import Region, regions_of


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
