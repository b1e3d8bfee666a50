"""Aggregate metrics: select them by name, combine several values into minimum, quantiles and skew.

A metric's value is text in Flink's API, mostly the text of a number. Requested metrics that do not
exist are left out of the answer, as in Flink.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stoker.api.checkpoints import FigureSummary
from stoker.api.metrics import AggregatedMetric, Aggregates, Metric
from stoker.core.errors import InvalidInput

MODES = ("min", "max", "avg", "sum", "skew")
MAX_SELECTED = 100_000
MetricValues = Mapping[str, str]


def parse_names(text: str | None) -> tuple[str, ...] | None:
    """Parse `get=a,b`; None when the client named no metric."""
    names = tuple(name for name in (text or "").split(",") if name)
    return names or None


def parse_modes(text: str | None) -> tuple[str, ...]:
    """Parse `agg=min,max`; all modes when the client named none."""
    wanted = tuple(mode.strip().lower() for mode in (text or "").split(",") if mode.strip())
    unknown = [mode for mode in wanted if mode not in MODES]
    if unknown:
        raise InvalidInput(f"agg must be one of {', '.join(MODES)}, found {unknown[0]!r}")
    return wanted or MODES


def parse_indices(text: str | None) -> frozenset[int] | None:
    """Parse `0,2,4-6`; None stands for all subtasks."""
    if not text:
        return None
    chosen: set[int] = set()
    named = 0
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        digits = first.isascii() and first.isdigit() and len(first) < 10
        if not digits or (dash and not (last.isascii() and last.isdigit() and len(last) < 10)):
            raise InvalidInput(f"subtasks must be like 0,2,4-6, found {text!r}")
        bounds = (int(first), int(last) if dash else int(first))
        named += max(0, bounds[1] - bounds[0] + 1)
        # Counted before the set is filled: a short text may name more numbers than memory holds.
        if named > MAX_SELECTED:
            raise InvalidInput(f"subtasks must name at most {MAX_SELECTED} subtasks")
        chosen.update(range(bounds[0], bounds[1] + 1))
    return frozenset(chosen)


def select_metrics(values: MetricValues, names: Sequence[str] | None) -> list[Metric]:
    """Select metrics of one object; without names, list the names of all its metrics."""
    if names is None:
        return [Metric(id=name) for name in sorted(values)]
    return [Metric(id=name, value=values[name]) for name in names if name in values]


def aggregate_metrics(
    objects: Sequence[MetricValues], names: Sequence[str] | None, modes: Sequence[str]
) -> list[AggregatedMetric]:
    """Aggregate each metric over several objects; values that are not numbers are left out."""
    if names is None:
        return [AggregatedMetric(id=name) for name in sorted({n for each in objects for n in each})]
    found = []
    for name in names:
        values = [number for each in objects if (number := _number(each.get(name))) is not None]
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
    """Half the mean distance from the average, in percent of the average.

    0 is an even spread; close to 100, nearly everything is in one place.
    """
    average = sum(values) / len(values)
    if average == 0:
        return 0.0
    distance = sum(abs(value - average) for value in values)
    return min(100.0, abs(distance / (2 * sum(values)) * 100)) if sum(values) else 0.0


def summarize_by_name(samples: Iterable[Mapping[str, int]]) -> Aggregates:
    """Compute quantiles of each name over the samples that contain it."""
    values: dict[str, list[int]] = {}
    for sample in samples:
        for name, value in sample.items():
            values.setdefault(name, []).append(value)
    return {name: _quantiles(sorted(each)) for name, each in values.items()}


def _quantiles(ordered: list[int]) -> dict[str, int]:
    def quantile_at(part: float) -> int:
        return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)]

    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": round(sum(ordered) / len(ordered)),
        "sum": sum(ordered),
        "median": quantile_at(0.5),
        "p25": quantile_at(0.25),
        "p75": quantile_at(0.75),
        "p95": quantile_at(0.95),
    }


def summary_of(values: Iterable[int], *, quantiles: bool = True) -> FigureSummary:
    """Summarize one figure. Quantiles are interpolated as in Flink; they are NaN without values."""
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
    """Interpolate a quantile. `ordered` is sorted and not empty."""
    position = part * (len(ordered) + 1)
    below = int(position)
    if below < 1:
        return float(ordered[0])
    if below >= len(ordered):
        return float(ordered[-1])
    first, second = ordered[below - 1], ordered[below]
    return first + (position - below) * (second - first)
