"""Validation of job graphs: every other module of this folder is called from here.

The client validates a graph before it submits it, and the dispatcher before it accepts it, with the
same checks: the dispatcher finds no fault that the client did not find, except that its size limit
may be lower. All faults are reported at once, each with its place, the problem and a remedy.
"""

from stoker.core.checks.job import job_faults, size_faults, together_faults
from stoker.core.checks.structure import structure_faults
from stoker.core.checks.vertices import is_streaming, vertex_faults
from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault
from stoker.core.graph import JobGraph, JobType, Sink

MAX_GRAPH_BYTES = 10 * 2**20


def faults_of(graph: JobGraph, *, max_bytes: int = MAX_GRAPH_BYTES) -> list[Fault]:
    """Everything that is wrong with the graph; empty when it can be accepted."""
    found = [
        *job_faults(graph),
        *structure_faults(graph),
        *vertex_faults(graph),
        *size_faults(graph, max_bytes),
    ]
    # Only a graph without these faults can be cut into regions.
    return list(dict.fromkeys(found or together_faults(graph)))


def validate(graph: JobGraph, *, max_bytes: int = MAX_GRAPH_BYTES) -> None:
    faults = faults_of(graph, max_bytes=max_bytes)
    if faults:
        raise InvalidJobGraph([str(fault) for fault in faults])


def job_type_of(graph: JobGraph) -> JobType:
    """STREAMING if any region is streaming. A graph with faults has a type as well."""
    by_name = {vertex.name: vertex for vertex in graph.vertices}
    sinks = (vertex for vertex in graph.vertices if isinstance(vertex, Sink))
    if any(is_streaming(sink, by_name) for sink in sinks):
        return JobType.STREAMING
    return JobType.BATCH
