"""The text for Prometheus, read by the parser of Prometheus's own library."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from stoker.metrics.catalogue import JOB_RESTARTS, LOOP_LAG, SUBMISSIONS
from stoker.metrics.exposition import exposition
from stoker.metrics.labels import bounded_label
from stoker.metrics.registry import MetricFamily, MetricRegistry


def read(registry: MetricRegistry) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    text = exposition(registry.collect()).decode()
    return {
        sample.name: {
            tuple(each.labels.items()): each.value
            for each in family.samples
            if each.name == sample.name
        }
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@given(st.text(), st.text(alphabet="\"\\\n{}=,' ☃"))
def test_a_name_of_a_job_arrives_as_it_is_cut(name: str, nasty: str) -> None:
    registry = MetricRegistry()
    for each in (name, nasty):
        with_name = registry.process.group(job_id=each, job_name=each)
        with_name.counter(JOB_RESTARTS).increment()
    shown = read(registry)["stoker_job_restarts_total"]
    assert shown == {
        (("job_id", bounded_label(each)), ("job_name", bounded_label(each))): 1.0
        for each in (name, nasty)
    }


def test_a_name_of_ten_thousand_letters_is_cut() -> None:
    registry = MetricRegistry()
    registry.process.group(job_id="1", job_name='"' * 10_000).counter(JOB_RESTARTS)
    ((labels, _),) = read(registry)["stoker_job_restarts_total"].items()
    assert dict(labels)["job_name"] == '"' * 199 + "…"


def test_a_histogram_has_cumulative_buckets_a_sum_and_a_count() -> None:
    registry = MetricRegistry()
    lag = registry.process.histogram(LOOP_LAG)
    for seconds in (0.0, 0.003, 20.0):
        lag.observe(seconds)
    shown = read(registry)
    buckets = {
        dict(labels)["le"]: count for labels, count in shown[f"{LOOP_LAG.name}_bucket"].items()
    }
    assert buckets["0.0005"] == 1
    assert buckets["0.005"] == 2
    assert buckets["10.0"] == 2
    assert buckets["+Inf"] == 3
    assert shown[f"{LOOP_LAG.name}_count"][()] == 3
    assert shown[f"{LOOP_LAG.name}_sum"][()] == 20.003


def test_every_metric_has_its_type_and_its_meaning() -> None:
    registry = MetricRegistry()
    registry.process.counter(SUBMISSIONS).increment("refused", "InvalidJobGraph")
    text = exposition(registry.collect()).decode()
    assert "# TYPE stoker_job_submissions_total counter\n" in text
    assert "# HELP stoker_job_submissions_total Submissions: accepted" in text
    assert 'stoker_job_submissions_total{outcome="refused",reason="InvalidJobGraph"} 1.0\n' in text


def test_a_metric_that_the_catalogue_does_not_know_is_left_out() -> None:
    assert exposition([MetricFamily(name="unknown_things")]) == b""
