"""What a registry shows, in a form that tests can compare."""

from stoker.metrics.definitions import MetricDefinition, MetricKind, Where
from stoker.metrics.registry import MetricRegistry

EVENTS = MetricDefinition(
    name="test_events_total", kind=MetricKind.COUNTER, where=Where.ALL, help="Events."
)
BY_KIND = MetricDefinition(
    name="test_kinds_total",
    kind=MetricKind.COUNTER,
    where=Where.ALL,
    help="Kinds.",
    labels=("kind",),
)
LEVEL = MetricDefinition(name="test_level", kind=MetricKind.GAUGE, where=Where.ALL, help="Level.")
LEVELS = MetricDefinition(
    name="test_levels", kind=MetricKind.GAUGE, where=Where.ALL, help="Levels.", labels=("kind",)
)
TIMES = MetricDefinition(
    name="test_times", kind=MetricKind.HISTOGRAM, where=Where.ALL, help="Times.", bounds=(1.0, 2.0)
)
OF_JOB = MetricDefinition(
    name="test_job_events_total",
    kind=MetricKind.COUNTER,
    where=Where.ALL,
    help="Events of a job.",
    labels=("job_id", "kind"),
)


def values(registry: MetricRegistry) -> dict[tuple[str, ...], float]:
    """The value of each series by the name of its metric and its labels."""
    return {
        (family.name, *sample.labels): sample.value
        for family in registry.collect()
        for sample in family.samples
    }
