"""The pure decision about one peer. HB-02, HB-04, HB-05."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidOption
from stoker.heartbeat.monitor import Liveness, Monitor
from stoker.heartbeat.options import NEVER, HeartbeatOptions

EVENTS = st.lists(
    st.tuples(st.floats(0, 100), st.sampled_from(["heard", "nobody", "check"])), max_size=40
)


def fresh(threshold: int = 2) -> Monitor:
    return Monitor(timeout=50, threshold=threshold, last_heard=0)


def after(monitor: Monitor, now: float, event: str) -> Monitor:
    match event:
        case "heard":
            return monitor.heard(now)
        case "nobody":
            return monitor.call_found_nobody()
    return monitor.checked(now)


def test_silence_for_the_timeout_is_a_timeout_and_less_is_not() -> None:
    assert fresh().checked(49.9).liveness is Liveness.RUNNING
    assert fresh().checked(50).liveness is Liveness.TIMEOUT
    assert fresh().heard(10).checked(59.9).liveness is Liveness.RUNNING


def test_the_second_unreachable_call_in_a_row_is_a_loss() -> None:
    once = fresh().call_found_nobody()
    assert once.liveness is Liveness.RUNNING
    assert once.call_found_nobody().liveness is Liveness.UNREACHABLE


def test_a_success_between_failures_restarts_the_count() -> None:
    monitor = fresh().call_found_nobody().heard(1).call_found_nobody()
    assert monitor.liveness is Liveness.RUNNING


def test_without_a_threshold_unreachable_calls_are_ignored() -> None:
    monitor = fresh(threshold=NEVER)
    for _ in range(100):
        monitor = monitor.call_found_nobody()
    assert monitor.liveness is Liveness.RUNNING


@given(EVENTS, EVENTS)
def test_a_verdict_is_final(
    before: list[tuple[float, str]], later: list[tuple[float, str]]
) -> None:
    now = 0.0
    monitor = fresh()
    for pause, event in before:
        now += pause
        monitor = after(monitor, now, event)
    verdict = monitor.liveness
    for pause, event in later:
        now += pause
        monitor = after(monitor, now, event)
        assert verdict is Liveness.RUNNING or monitor.liveness is verdict


@given(EVENTS)
def test_a_target_heard_within_the_timeout_is_never_timed_out(
    events: list[tuple[float, str]],
) -> None:
    now = 0.0
    monitor = fresh(threshold=NEVER)
    for pause, event in events:
        now += min(pause, 49)
        monitor = after(monitor, now, event).heard(now)
    assert monitor.liveness is Liveness.RUNNING


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"timeout": timedelta(seconds=10)}, "heartbeat.timeout"),
        ({"interval": timedelta(0)}, "heartbeat.interval"),
        ({"rpc_failure_threshold": 0}, "heartbeat.rpc-failure-threshold"),
    ],
)
def test_impossible_settings_are_refused_with_the_key(values: dict[str, object], key: str) -> None:
    with pytest.raises(InvalidOption, match=key):
        HeartbeatOptions(**values)  # type: ignore[arg-type]
