"""Checks of the structure of a graph: names, inputs, cycles, unused vertices."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from stoker.core.description import kind_of
from stoker.core.faults import Fault, did_you_mean
from stoker.core.graph import (
    JobGraph,
    Program,
    Sink,
    Source,
    SqlScript,
    Transform,
    Vertex,
    inputs_of,
)

RESERVED_NAMES = frozenset({"spark", "params"})
"""Parameters of user functions that are not edges."""
LONGEST_NAME = 100

_VIEW_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_END_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def place_of(vertex: Vertex) -> str:
    return f"{kind_of(vertex)} '{vertex.name}'"


def structure_faults(graph: JobGraph) -> Iterator[Fault]:
    by_name = {vertex.name: vertex for vertex in graph.vertices}
    for vertex in graph.vertices:
        yield from _name_faults(vertex)
    yield from _duplicates(graph.vertices)
    yield from _unknown_inputs(graph.vertices, by_name)
    yield from _cycles(by_name)
    yield from _dead_ends(graph.vertices, by_name)


def ancestors(name: str, by_name: Mapping[str, Vertex]) -> set[str]:
    """The vertex and all that it needs, directly or through others.

    The graph may be faulty: unknown names are skipped, and a cycle is followed once.
    """
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in found or current not in by_name:
            continue
        found.add(current)
        waiting.extend(inputs_of(by_name[current]))
    return found


def _name_faults(vertex: Vertex) -> Iterator[Fault]:
    place = place_of(vertex)
    is_end = isinstance(vertex, Sink | SqlScript | Program)
    if not vertex.name.strip():
        yield Fault(place, "the name is empty", "give the vertex a name")
    elif len(vertex.name) > LONGEST_NAME:
        yield Fault(place, "the name is too long", f"use at most {LONGEST_NAME} characters")
    elif vertex.name in RESERVED_NAMES:
        yield Fault(
            place,
            f"'{vertex.name}' is reserved for the argument of that name",
            "choose another name",
        )
    elif not (_END_NAME if is_end else _VIEW_NAME).fullmatch(vertex.name):
        allowed = "letters, digits, '_', '-' and '.'" if is_end else "letters, digits and '_'"
        yield Fault(
            place,
            "the name has characters that are not allowed",
            f"use {allowed}, beginning with a letter or '_'",
        )


def _duplicates(vertices: Iterable[Vertex]) -> Iterator[Fault]:
    # Spark compares the names of views without regard to case.
    spellings: dict[str, list[str]] = {}
    for vertex in vertices:
        spellings.setdefault(vertex.name.lower(), []).append(vertex.name)
    for names in spellings.values():
        for name, count in Counter(names).items():
            if count > 1:
                yield Fault(
                    f"vertex '{name}'",
                    f"the name is used {count} times",
                    "give every source, transform and sink a name of its own",
                )
        distinct = sorted(set(names))
        if len(distinct) > 1:
            listing = ", ".join(f"'{name}'" for name in distinct)
            yield Fault(
                f"vertex '{distinct[0]}'",
                f"{listing} differ only in upper and lower case",
                "Spark cannot tell them apart: rename one",
            )


def _unknown_inputs(vertices: Iterable[Vertex], by_name: Mapping[str, Vertex]) -> Iterator[Fault]:
    readable = [name for name, v in by_name.items() if isinstance(v, Source | Transform)]
    for vertex in vertices:
        if isinstance(vertex, Transform) and not vertex.inputs:
            yield Fault(
                place_of(vertex),
                "it has no input",
                "name its inputs, or make it a source",
            )
        for name in inputs_of(vertex):
            if name not in by_name:
                candidates = [known for known in readable if known != vertex.name]
                yield Fault(
                    place_of(vertex), f"unknown input '{name}'", did_you_mean(name, candidates)
                )
            elif name not in readable:
                yield Fault(
                    place_of(vertex),
                    f"input '{name}' is a {kind_of(by_name[name])}",
                    "only sources and transforms can be read",
                )


def _cycles(by_name: Mapping[str, Vertex]) -> Iterator[Fault]:
    """One fault for each cycle that a walk along the inputs finds."""
    finished: set[str] = set()
    for start in by_name:
        path: list[str] = []
        on_path: set[str] = set()
        # An explicit stack: a chain can be longer than Python's recursion limit.
        stack: list[tuple[str, Iterator[str]]] = []
        if start not in finished:
            stack.append((start, iter(inputs_of(by_name[start]))))
            path.append(start)
            on_path.add(start)
        while stack:
            name, upstream = stack[-1]
            following = next(upstream, None)
            if following is None:
                stack.pop()
                path.pop()
                on_path.discard(name)
                finished.add(name)
            elif following in on_path:
                # The walk goes against the flow of data: reversed, the cycle reads along it.
                cycle = [*path[path.index(following) :], following][::-1]
                yield Fault(
                    f"vertex '{following}'",
                    f"it needs its own result: {' → '.join(cycle)}",
                    "remove one of these edges",
                )
            elif following in by_name and following not in finished:
                stack.append((following, iter(inputs_of(by_name[following]))))
                path.append(following)
                on_path.add(following)


def _dead_ends(vertices: tuple[Vertex, ...], by_name: Mapping[str, Vertex]) -> Iterator[Fault]:
    ends = [vertex for vertex in vertices if isinstance(vertex, Sink | SqlScript | Program)]
    if not ends:
        yield Fault("job", "it has no sink, so it would do nothing", "add a sink")
        return
    used: set[str] = set()
    for end in ends:
        used |= ancestors(end.name, by_name)
    for vertex in vertices:
        if vertex.name not in used:
            yield Fault(
                place_of(vertex), "it is not used by any sink", "remove it, or add a sink for it"
            )
