"""Figures of several things as one: minimum, quantiles, sums and skew."""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stoker.api.checkpoints import FigureSummary
from stoker.api.metrics import AggregatedMetric, Metric
from stoker.api.vertices import Aggregates
from stoker.core.errors import InvalidInput

MODES = ("min", "max", "avg", "sum", "skew")
MAX_SELECTED = 100_000
Figures = Mapping[str, str]
"""By name; a value is text, as Flink's API has it, and mostly a number."""


def parse_names(text: str | None) -> tuple[str, ...] | None:
    """`get=a,b`: the names; None where none were asked for."""
    names = tuple(name for name in (text or "").split(",") if name)
    return names or None


def parse_modes(text: str | None) -> tuple[str, ...]:
    """`agg=min,max`: all of them unless some are asked for."""
    wanted = tuple(mode.strip().lower() for mode in (text or "").split(",") if mode.strip())
    unknown = [mode for mode in wanted if mode not in MODES]
    if unknown:
        raise InvalidInput(f"agg must be of {', '.join(MODES)}, found {unknown[0]!r}")
    return wanted or MODES


def parse_indices(text: str | None) -> frozenset[int] | None:
    """`0,2,4-6`; None for all."""
    if not text:
        return None
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        digits = first.isascii() and first.isdigit() and len(first) < 10
        if not digits or (dash and not (last.isascii() and last.isdigit() and len(last) < 10)):
            raise InvalidInput(f"subtasks must be like 0,2,4-6, found {text!r}")
        bounds = (int(first), int(last) if dash else int(first))
        if bounds[1] - bounds[0] > MAX_SELECTED:
            raise InvalidInput(f"subtasks {part.strip()!r} is a range of too many")
        chosen.update(range(bounds[0], bounds[1] + 1))
    return frozenset(chosen)


def select_metrics(figures: Figures, names: Sequence[str] | None) -> list[Metric]:
    """The figures of one thing; unknown names are left out, as Flink does."""
    if names is None:
        return [Metric(id=name) for name in sorted(figures)]
    return [Metric(id=name, value=figures[name]) for name in names if name in figures]


def aggregate_metrics(
    things: Sequence[Figures], names: Sequence[str] | None, modes: Sequence[str]
) -> list[AggregatedMetric]:
    """The figures of several things; those that are no numbers cannot be aggregated."""
    if names is None:
        return [AggregatedMetric(id=name) for name in sorted({n for each in things for n in each})]
    found = []
    for name in names:
        values = [number for each in things if (number := _number(each.get(name))) is not None]
        if values:
            found.append(_aggregate(name, values, modes))
    return found


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _aggregate(name: str, values: Sequence[float], modes: Sequence[str]) -> AggregatedMetric:
    everything = {
        "min": min(values),
        "max": max(values),
        "avg": sum(values) / len(values),
        "sum": sum(values),
        "skew": _skew(values),
    }
    return msgspec.convert(
        {"id": name} | {mode: everything[mode] for mode in modes}, AggregatedMetric
    )


def _skew(values: Sequence[float]) -> float:
    """Mean distance from the average, in percent of it: 0 is even, 100 is all in one place."""
    average = sum(values) / len(values)
    if average == 0:
        return 0.0
    distance = sum(abs(value - average) for value in values)
    return min(100.0, abs(distance / (2 * sum(values)) * 100)) if sum(values) else 0.0


def summarize_by_name(samples: Iterable[Mapping[str, int]]) -> Aggregates:
    """For every name that any sample has: quantiles over the samples that have it."""
    values: dict[str, list[int]] = {}
    for sample in samples:
        for name, value in sample.items():
            values.setdefault(name, []).append(value)
    return {name: _quantiles(sorted(each)) for name, each in values.items()}


def _quantiles(ordered: list[int]) -> dict[str, int]:
    def at(part: float) -> int:
        return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)]

    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": round(sum(ordered) / len(ordered)),
        "sum": sum(ordered),
        "median": at(0.5),
        "p25": at(0.25),
        "p75": at(0.75),
        "p95": at(0.95),
    }


def summary_of(values: Iterable[int], *, quantiles: bool = True) -> FigureSummary:
    """Quantiles lie between two values, as Flink reckons them; NaN where there are no values."""
    ordered = sorted(values)
    if not ordered:
        return FigureSummary()
    bounds = FigureSummary(min=ordered[0], max=ordered[-1], avg=sum(ordered) // len(ordered))
    if not quantiles:
        return bounds
    return FigureSummary(
        min=bounds.min,
        max=bounds.max,
        avg=bounds.avg,
        p50=quantile(ordered, 0.5),
        p90=quantile(ordered, 0.9),
        p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
        p999=quantile(ordered, 0.999),
    )


def quantile(ordered: Sequence[int], part: float) -> float:
    """Of values in order, at least one."""
    position = part * (len(ordered) + 1)
    below = int(position)
    if below < 1:
        return float(ordered[0])
    if below >= len(ordered):
        return float(ordered[-1])
    first, second = ordered[below - 1], ordered[below]
    return first + (position - below) * (second - first)
