"""Names by the conventions of Prometheus."""

from typing import Any

import pytest

from stoker.metrics.definitions import Catalogue, MetricDefinition, MetricKind, Unit, Where


def define(**facts: Any) -> MetricDefinition:
    usual = {
        "name": "stoker_things",
        "kind": MetricKind.GAUGE,
        "where": Where.ALL,
        "help": "Things.",
    }
    return MetricDefinition(**{**usual, **facts})


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"name": "stoker_Things"}, "snake case"),
        ({"name": "stoker_things_total"}, "ends with _total"),
        ({"kind": MetricKind.COUNTER}, "ends with _total"),
        ({"unit": Unit.SECONDS}, "does not say its unit"),
        ({"name": "stoker_things_bytes", "unit": Unit.SECONDS}, "does not say its unit"),
        ({"kind": MetricKind.HISTOGRAM}, "has bounds"),
        ({"bounds": (1.0,)}, "has bounds"),
        ({"kind": MetricKind.HISTOGRAM, "bounds": (2.0, 1.0)}, "do not ascend"),
        ({"labels": ("le",)}, "label cannot be used"),
        ({"labels": ("job-id",)}, "label cannot be used"),
    ],
)
def test_a_definition_that_breaks_a_convention_is_refused(
    facts: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        define(**facts)


def test_a_counter_says_its_unit_before_total() -> None:
    definition = define(name="stoker_cpu_seconds_total", kind=MetricKind.COUNTER, unit=Unit.SECONDS)
    assert definition.name == "stoker_cpu_seconds_total"


def test_a_name_is_defined_once() -> None:
    catalogue = Catalogue()
    catalogue.add(define())
    with pytest.raises(ValueError, match="defined twice"):
        catalogue.add(define())
