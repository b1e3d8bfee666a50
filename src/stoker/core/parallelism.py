"""Overrides of parallelism: how many shuffle partitions a region of the job uses. Pure."""

from collections.abc import Iterable, Mapping

OVERRIDES = "pipeline.jobvertex-parallelism-overrides"
"""Key of a job's configuration: `vertex:number,vertex:number`."""
DEFAULT = "parallelism.default"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def parse_overrides(text: str) -> dict[str, int]:
    """Raises ValueError, with the words for the user."""
    overrides: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        vertex, colon, number = pair.rpartition(":")
        if not (vertex and colon and number.strip().isdigit() and int(number) > 0):
            raise ValueError(f"'{pair}' is not vertex:number")
        overrides[vertex.strip()] = int(number)
    return overrides


def with_cluster_overrides(
    configuration: Mapping[str, str], cluster: Mapping[str, str]
) -> dict[str, str]:
    """The job's own overrides win, vertex by vertex."""
    if not cluster:
        return dict(configuration)
    wanted = {vertex: int(number) for vertex, number in cluster.items()}
    wanted |= parse_overrides(configuration.get(OVERRIDES, ""))
    text = ",".join(f"{vertex}:{number}" for vertex, number in sorted(wanted.items()))
    return {**configuration, OVERRIDES: text}


def shuffle_partitions(configuration: Mapping[str, str], vertices: Iterable[str]) -> int | None:
    """Of a region with these vertices, its end last; the override nearest to its end counts.

    Spark plans a region as one query, with one number for all its shuffles.
    """
    overrides = parse_overrides(configuration.get(OVERRIDES, ""))
    for vertex in reversed(tuple(vertices)):
        if vertex in overrides:
            return overrides[vertex]
    default = configuration.get(DEFAULT)
    return int(default) if default else None
