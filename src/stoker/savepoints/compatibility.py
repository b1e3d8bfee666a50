"""Whether a job can continue from the state that another job saved, and if not, the reasons.

A query is identified by the name of its sink. Spark only numbers the sources and stateful operators
of a query, so their count and order must not change: Spark would silently mix them up. Two things
are known only to Spark's planner and are checked before the first batch: the runner compares the
columns by which state is kept, and Spark itself compares their types.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from stoker.core.errors import IncompatibleSavepoint
from stoker.core.graph import (
    FormatRead,
    JobGraph,
    PythonFunction,
    Sink,
    Source,
    Sql,
    Transform,
    Vertex,
)
from stoker.core.job_options import SHUFFLE_PARTITIONS
from stoker.core.regions import Region, regions_of
from stoker.savepoints.logs import PROVIDER
from stoker.savepoints.manifest import SavedQuery, SavepointManifest

_GROUPING = re.compile(
    r"\bgroup\s+by\b(.+?)(?=\b(?:having|order\s+by|limit|window|union|cluster\s+by)\b|$|;)", re.S
)


class CompatibilityVerdict(StrEnum):
    FITS = "fits"
    NOTE = "note"
    UNCLAIMED = "unclaimed"
    """Saved state for which the job has no query: refused unless the user allows it."""
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Finding:
    verdict: CompatibilityVerdict
    region: str
    message: str

    def __str__(self) -> str:
        return f"{self.region}: {self.message}"


@dataclass(frozen=True, kw_only=True)
class Compatibility:
    findings: tuple[Finding, ...]

    def refusals(self, *, allow_non_restored_state: bool) -> list[Finding]:
        refused = {CompatibilityVerdict.REFUSED}
        if not allow_non_restored_state:
            refused.add(CompatibilityVerdict.UNCLAIMED)
        return [finding for finding in self.findings if finding.verdict in refused]

    def check(self, path: str, *, allow_non_restored_state: bool) -> None:
        refusals = self.refusals(allow_non_restored_state=allow_non_restored_state)
        if refusals:
            raise IncompatibleSavepoint(path, [str(finding) for finding in refusals])


def compare(manifest: SavepointManifest, saved: JobGraph, new: JobGraph) -> Compatibility:
    return Compatibility(findings=tuple(_findings(manifest, saved, new)))


def _findings(manifest: SavepointManifest, saved: JobGraph, new: JobGraph) -> Iterator[Finding]:
    regions = {region.id: region for region in regions_of(new) if region.streaming}
    if not regions:
        yield Finding(
            verdict=CompatibilityVerdict.REFUSED,
            region="the job",
            message="it has no streaming query, and only those have state to continue from; "
            "submit it without a savepoint",
        )
        return
    before = {region.id: region for region in regions_of(saved) if region.streaming}
    for query in manifest.queries:
        region = regions.get(query.region)
        if region is None:
            yield Finding(
                verdict=CompatibilityVerdict.UNCLAIMED,
                region=query.region,
                message="the savepoint has state of this query, and the job has no sink of that "
                "name; name the sink as it was, or leave the state behind with "
                "--allow-non-restored-state",
            )
        elif query.region in before:
            yield from _query_findings(query, saved, before[query.region], new, region)
    for name in sorted(set(regions) - {query.region for query in manifest.queries}):
        yield Finding(
            verdict=CompatibilityVerdict.NOTE,
            region=name,
            message="the savepoint has no state of this query: it starts from scratch",
        )


def _query_findings(
    query: SavedQuery, saved: JobGraph, before: Region, new: JobGraph, after: Region
) -> Iterator[Finding]:
    problems = [
        *_source_problems(saved, before, new, after),
        *_mode_problems(query, saved, new),
        *_grouping_problems(query, saved, before, new, after),
        *_setting_problems(query, new),
    ]
    for message in problems:
        yield Finding(verdict=CompatibilityVerdict.REFUSED, region=query.region, message=message)
    for message in _notes(saved, before, new, after):
        yield Finding(verdict=CompatibilityVerdict.NOTE, region=query.region, message=message)
    if not problems:
        at = "its beginning" if query.batch_id is None else f"batch {query.batch_id}"
        yield Finding(
            verdict=CompatibilityVerdict.FITS, region=query.region, message=f"continues after {at}"
        )


def _sources(graph: JobGraph, region: Region) -> list[Source]:
    members = [graph.vertex(name) for name in region.vertices]
    return [v for v in members if isinstance(v, Source) and _may_stream(v)]


def _may_stream(source: Source) -> bool:
    return source.streaming or isinstance(source.read, PythonFunction)


def _source_problems(
    saved: JobGraph, before: Region, new: JobGraph, after: Region
) -> Iterator[str]:
    old, now = _sources(saved, before), _sources(new, after)
    names, new_names = [source.name for source in old], [source.name for source in now]
    for name in names:
        if name not in new_names:
            yield (
                f"its source {name} is gone; Spark keeps positions by the order of sources, so a "
                "query cannot lose one: keep it, or begin a query under another sink name"
            )
    for name in new_names:
        if name not in names:
            yield (
                f"its source {name} is new; Spark keeps positions by the order of sources, so a "
                "query cannot gain one: give it a sink of its own"
            )
    if sorted(names) == sorted(new_names) and names != new_names:
        yield f"its sources are in another order; restore the previous one: {', '.join(names)}"
    kept = {source.name: source for source in old}
    for source in now:
        if source.name in kept:
            yield from _changed_source(kept[source.name], source)


def _changed_source(old: Source, now: Source) -> Iterator[str]:
    if isinstance(old.read, FormatRead) and isinstance(now.read, FormatRead):
        if old.read.format != now.read.format:
            yield (
                f"its source {now.name} reads {now.read.format} now and read {old.read.format} "
                "before; saved positions are valid for one format only"
            )
        elif old.read.table != now.read.table:
            yield (
                f"its source {now.name} reads another table than before "
                f"({old.read.table or 'none'}); read the same again, or begin a query under "
                "another sink name"
            )


def _mode_problems(query: SavedQuery, saved: JobGraph, new: JobGraph) -> Iterator[str]:
    old, now = _mode(saved, query.region), _mode(new, query.region)
    if old != now and query.operators:
        yield (
            f"its output mode is {now} now and was {old}; the state was kept for that mode: "
            f"use mode {old}, or begin a query under another sink name"
        )


def _mode(graph: JobGraph, sink: str) -> str:
    vertex = graph.vertex(sink)
    return (vertex.mode if isinstance(vertex, Sink) else None) or "append"


def _grouping_problems(
    query: SavedQuery, saved: JobGraph, before: Region, new: JobGraph, after: Region
) -> Iterator[str]:
    if not query.operators:
        return
    old, now = _groupings(saved, before), _groupings(new, after)
    for name in sorted(set(old) & set(now)):
        if old[name] != now[name]:
            yield (
                f"{name} groups by {now[name] or 'nothing'} now and grouped by "
                f"{old[name] or 'nothing'} before; the state is kept by the previous keys: keep "
                "them, or begin a query under another sink name"
            )


def _groupings(graph: JobGraph, region: Region) -> dict[str, str]:
    """The grouping clauses of each SQL transform, in lower case and without blanks."""
    groupings: dict[str, str] = {}
    for name in region.vertices:
        vertex = graph.vertex(name)
        if isinstance(vertex, Transform) and isinstance(vertex.compute, Sql):
            found = _GROUPING.findall(vertex.compute.query.lower())
            keys = [re.sub(r"\s+", "", clause) for clause in found]
            groupings[name] = "; ".join(keys)
    return groupings


def _setting_problems(query: SavedQuery, new: JobGraph) -> Iterator[str]:
    wanted = new.configuration.get(SHUFFLE_PARTITIONS)
    if query.operators and wanted and str(query.shuffle_partitions or wanted) != wanted:
        yield (
            f"{SHUFFLE_PARTITIONS} is {wanted} and its state has {query.shuffle_partitions} "
            "partitions, which Spark would keep silently; change the state first with: "
            f"stoker savepoint repartition PATH {wanted}"
        )
    provider = new.configuration.get(PROVIDER)
    saved = query.state_provider
    if query.operators and provider and saved and provider.rpartition(".")[2] != saved:
        yield (f"{PROVIDER} differs from that of the state ({saved}); remove the setting")


def _notes(saved: JobGraph, before: Region, new: JobGraph, after: Region) -> Iterator[str]:
    old = {name: saved.vertex(name) for name in before.vertices}
    for name in after.vertices:
        vertex = new.vertex(name)
        if name not in old:
            yield f"{name} is new in this query"
        elif _computation_of(vertex) != _computation_of(old[name]):
            yield (
                f"{name} has changed; the columns and types of its state are compared when it "
                "starts, before its first batch"
            )


def _computation_of(vertex: Vertex) -> object:
    match vertex:
        case Source(read=work) | Transform(compute=work) | Sink(write=work):
            return (work.name, work.payload) if isinstance(work, PythonFunction) else work
        case _:
            return vertex
