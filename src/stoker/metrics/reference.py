"""Write the reference page of all metrics: `python -m stoker.metrics.reference FILE`."""

import sys
from itertools import groupby
from pathlib import Path

from stoker.metrics.catalogue import CATALOGUE
from stoker.metrics.definitions import MetricDefinition, Where

INTRODUCTION = """\
# Metrics

This page is generated from the catalogue of metrics: `make docs` writes it, a test compares it. How
to read them with Prometheus is in [operations](../operations.md#metrics).

A histogram NAME has the series `NAME_bucket` (with the label `le`), `NAME_sum` and `NAME_count`.
Label values are cut at 200 letters. A metric without a value yet is left out.
"""
_ORDER = list(Where)


def render() -> str:
    ordered = sorted(CATALOGUE, key=lambda metric: _ORDER.index(metric.where))
    sections = [_section(where, list(each)) for where, each in groupby(ordered, _where)]
    return "\n".join([INTRODUCTION, *sections])


def _where(metric: MetricDefinition) -> Where:
    return metric.where


def _section(where: Where, metrics: list[MetricDefinition]) -> str:
    rows = "".join(f"| {' | '.join(_cells(metric))} |\n" for metric in metrics)
    title = where[0].upper() + where[1:]
    return f"## {title}\n\n| name | type | labels | meaning |\n|---|---|---|---|\n{rows}"


def _cells(metric: MetricDefinition) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"`{metric.name}`", str(metric.kind), labels, metric.help


def main(arguments: list[str]) -> None:
    target = Path(arguments[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
