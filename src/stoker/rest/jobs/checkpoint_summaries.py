"""Minimum, maximum, average and quantiles of a figure over several checkpoints."""

from collections.abc import Iterable, Sequence

from stoker.api.checkpoints import Summary


def summary_of(values: Iterable[int], *, quantiles: bool = True) -> Summary:
    """Quantiles lie between two values, as Flink reckons them; NaN where there are no values."""
    ordered = sorted(values)
    if not ordered:
        return Summary()
    bounds = Summary(min=ordered[0], max=ordered[-1], avg=sum(ordered) // len(ordered))
    if not quantiles:
        return bounds
    return Summary(
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
