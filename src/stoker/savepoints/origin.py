"""Whether a job can begin from the savepoint that it names."""

from stoker.core.errors import NotFound, UnusableSavepoint
from stoker.core.graph import JobGraph
from stoker.savepoints.compatibility import Compatibility, compare
from stoker.savepoints.locations import Location, OpenStorage, locate, read_manifest
from stoker.savepoints.manifest import GRAPH, Manifest, decode_graph


async def saved_graph(location: Location) -> JobGraph:
    try:
        content = await location.parent.read(location.inside(GRAPH))
    except NotFound:
        raise UnusableSavepoint(location.url, f"its file {GRAPH} is missing") from None
    return decode_graph(content, location.url)


async def check_origin(
    graph: JobGraph, open_storage: OpenStorage
) -> tuple[Location, Manifest, Compatibility]:
    """What the job would begin from; refused with every reason when it cannot."""
    assert graph.restore is not None
    location = locate(graph.restore.path, open_storage)
    manifest = await read_manifest(location)
    compatibility = compare(manifest, await saved_graph(location), graph)
    compatibility.check(
        location.url, allow_non_restored_state=graph.restore.allow_non_restored_state
    )
    return location, manifest, compatibility
