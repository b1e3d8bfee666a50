"""The one judge of job graphs: every fault at once, each with place, problem and remedy."""

from stoker.core.checks.job import job_faults, size_faults, together_faults
from stoker.core.checks.structure import structure_faults
from stoker.core.checks.vertices import is_streaming, vertex_faults
from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault
from stoker.core.graph import JobGraph, JobType, Sink

MAX_GRAPH_BYTES = 10 * 2**20


def faults_of(graph: JobGraph, *, max_bytes: int = MAX_GRAPH_BYTES) -> list[Fault]:
    """All that is wrong with the graph; empty when it can be accepted."""
    found = [
        *job_faults(graph),
        *structure_faults(graph),
        *vertex_faults(graph),
        *size_faults(graph, max_bytes),
    ]
    # Only a graph that is right so far can be cut into regions.
    return list(dict.fromkeys(found or together_faults(graph)))


def validate(graph: JobGraph, *, max_bytes: int = MAX_GRAPH_BYTES) -> None:
    faults = faults_of(graph, max_bytes=max_bytes)
    if faults:
        raise InvalidJobGraph([str(fault) for fault in faults])


def job_type_of(graph: JobGraph) -> JobType:
    """STREAMING as soon as one region is; a graph with faults has a type too."""
    by_name = {vertex.name: vertex for vertex in graph.vertices}
    sinks = (vertex for vertex in graph.vertices if isinstance(vertex, Sink))
    if any(is_streaming(sink, by_name) for sink in sinks):
        return JobType.STREAMING
    return JobType.BATCH
