"""Groups, counters, gauges and histograms."""

import gc
import math
import tracemalloc
from collections import Counter as Tally

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stoker.metrics.labels import MAX_LABEL_LETTERS, OTHER
from stoker.metrics.registry import MAX_SERIES, MetricGroup, MetricRegistry
from unit.metrics.readings import BY_KIND, EVENTS, LEVEL, LEVELS, OF_JOB, TIMES, values


def test_a_counter_without_labels_of_its_own_starts_at_zero() -> None:
    registry = MetricRegistry()
    registry.process.counter(EVENTS)
    registry.process.counter(BY_KIND)
    assert values(registry) == {("test_events_total",): 0.0}


def test_a_counter_that_is_asked_for_twice_is_one_counter() -> None:
    registry = MetricRegistry()
    registry.process.counter(EVENTS).increment()
    registry.process.counter(EVENTS).increment(by=2)
    assert values(registry) == {("test_events_total",): 3.0}


@pytest.mark.parametrize("step", [-1.0, math.nan, math.inf])
def test_a_counter_never_shrinks_and_stays_a_number(step: float) -> None:
    registry = MetricRegistry()
    registry.process.counter(EVENTS).increment(by=step)
    assert values(registry) == {("test_events_total",): 0.0}


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32)))
def test_a_histogram_counts_each_number_in_the_first_bucket_that_holds_it(
    observed: list[float],
) -> None:
    registry = MetricRegistry()
    histogram = registry.process.histogram(TIMES)
    for value in observed:
        histogram.observe(value)
    numbers = [value for value in observed if math.isfinite(value)]
    expected = (
        sum(value <= 1 for value in numbers),
        sum(1 < value <= 2 for value in numbers),
        sum(value > 2 for value in numbers),
    )
    samples = [sample for family in registry.collect() for sample in family.samples]
    if not numbers:
        assert samples == []
        return
    assert samples[0].buckets == expected
    assert samples[0].count == len(numbers)
    assert samples[0].value == sum(numbers)


@given(st.lists(st.text()))
def test_events_are_counted_once_whatever_their_label_says(kinds: list[str]) -> None:
    registry = MetricRegistry()
    counter = registry.process.counter(BY_KIND)
    for kind in kinds:
        counter.increment(kind)
    shown = values(registry)
    assert sum(shown.values()) == len(kinds)
    assert all(len(labels[1]) <= MAX_LABEL_LETTERS for labels in shown)
    assert all(labels[1].isprintable() for labels in shown)


def test_series_above_the_limit_count_together() -> None:
    registry = MetricRegistry()
    counter, histogram = registry.process.counter(BY_KIND), registry.process.histogram(TIMES)
    for number in range(3 * MAX_SERIES):
        counter.increment(str(number))
        counter.increment("7")
        histogram.observe(1.0)
    shown = values(registry)
    assert len(shown) == MAX_SERIES + 2
    assert shown["test_kinds_total", OTHER] == 2 * MAX_SERIES
    assert shown["test_kinds_total", "7"] == 3 * MAX_SERIES + 1


def test_a_gauge_is_read_when_somebody_asks_and_left_out_without_a_value() -> None:
    registry = MetricRegistry()
    level: list[float | None] = [None]
    registry.process.gauge(LEVEL, lambda: level[0])
    assert values(registry) == {}
    level[0] = 4.0
    assert values(registry) == {("test_level",): 4.0}
    level[0] = math.nan
    assert values(registry) == {}


def test_a_later_gauge_replaces_an_earlier_one() -> None:
    registry = MetricRegistry()
    registry.process.gauge(LEVEL, lambda: 1.0)
    registry.process.gauge(LEVEL, lambda: 2.0)
    assert values(registry) == {("test_level",): 2.0}


def test_a_closed_group_takes_everything_below_it_out_of_the_registry() -> None:
    registry = MetricRegistry()
    with registry.process.group() as led:
        led.gauge(LEVEL, lambda: 1.0)
        job = led.group(job_id="1")
        counter = job.counter(OF_JOB)
        counter.increment("a")
        assert len(values(registry)) == 2
    assert registry.collect() == []
    counter.increment("a")
    job.counter(OF_JOB).increment("b")
    led.group(job_id="2").counter(OF_JOB).increment("a")
    assert registry.collect() == []


def test_labels_of_a_group_belong_to_everything_in_it() -> None:
    registry = MetricRegistry()
    registry.process.group(job_id="x" * 10_000).counter(OF_JOB).increment("a\nb")
    ((_, job_id, kind),) = values(registry)
    assert job_id == "x" * (MAX_LABEL_LETTERS - 1) + "…"
    assert kind == "a b"


def test_a_metric_of_the_wrong_kind_or_group_is_refused() -> None:
    group = MetricRegistry().process
    with pytest.raises(ValueError, match="is a gauge, not a counter"):
        group.counter(LEVEL)
    with pytest.raises(ValueError, match=r"do not begin with \('job_id',\)"):
        group.group(job_id="1").counter(EVENTS)
    with pytest.raises(ValueError, match="needs 1 more labels"):
        group.counter(BY_KIND).increment()


class Groups(RuleBasedStateMachine):
    """The registry shows what a plain model of open jobs says, after any sequence of events."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = MetricRegistry()
        self.open: dict[str, MetricGroup] = {}
        self.expected: Tally[tuple[str, ...]] = Tally()

    @rule(job_id=st.sampled_from("abc"))
    def open_job(self, job_id: str) -> None:
        if job_id not in self.open:
            self.open[job_id] = self.registry.process.group(job_id=job_id)

    @rule(job_id=st.sampled_from("abc"), kind=st.sampled_from("xy"))
    def count(self, job_id: str, kind: str) -> None:
        if (group := self.open.get(job_id)) is not None:
            group.counter(OF_JOB).increment(kind)
            self.expected["test_job_events_total", job_id, kind] += 1

    @rule(job_id=st.sampled_from("abc"))
    def end_job(self, job_id: str) -> None:
        if (group := self.open.pop(job_id, None)) is not None:
            group.close()
            for key in [each for each in self.expected if each[1] == job_id]:
                del self.expected[key]

    @rule(level=st.floats(allow_nan=False, allow_infinity=False))
    def set_level(self, level: float) -> None:
        self.registry.process.gauges(LEVELS, lambda: {("now",): level})
        self.expected.pop(("test_levels", "now"), None)
        self.level = level

    @invariant()
    def shows_the_open_jobs(self) -> None:
        expected = dict(self.expected)
        if hasattr(self, "level"):
            expected["test_levels", "now"] = self.level  # type: ignore[assignment]
        assert values(self.registry) == expected


TestGroups = Groups.TestCase


def test_a_thousand_jobs_take_little_memory_and_leave_none() -> None:
    registry = MetricRegistry()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        groups = [registry.process.group(job_id=f"{number:032x}") for number in range(1000)]
        for group in groups:
            group.counter(OF_JOB).increment("a")
        with_jobs = tracemalloc.get_traced_memory()[0] - before
        for group in groups:
            group.close()
        del group, groups
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert with_jobs < 3_000_000
    assert left < 100_000
