"""The pure decision whether one peer is alive (HB-02, HB-04, HB-05)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidOption
from stoker.heartbeat.monitor import Liveness, Monitor
from stoker.heartbeat.options import NEVER, HeartbeatOptions

EVENTS = st.lists(
    st.tuples(st.floats(0, 100), st.sampled_from(["heartbeat", "unreachable", "check"])),
    max_size=40,
)


def new_monitor(threshold: int = 2) -> Monitor:
    return Monitor(timeout=50, threshold=threshold, last_heard=0)


def apply(monitor: Monitor, now: float, event: str) -> Monitor:
    match event:
        case "heartbeat":
            return monitor.after_heartbeat(now)
        case "unreachable":
            return monitor.after_unreachable_call()
    return monitor.at(now)


def test_only_silence_for_the_whole_timeout_is_a_loss() -> None:
    assert new_monitor().at(49.9).liveness is Liveness.RUNNING
    assert new_monitor().at(50).liveness is Liveness.TIMEOUT
    assert new_monitor().after_heartbeat(10).at(59.9).liveness is Liveness.RUNNING


def test_the_second_unreachable_call_in_a_row_is_a_loss() -> None:
    once = new_monitor().after_unreachable_call()
    assert once.liveness is Liveness.RUNNING
    assert once.after_unreachable_call().liveness is Liveness.UNREACHABLE


def test_a_success_between_failures_restarts_the_count() -> None:
    monitor = new_monitor().after_unreachable_call().after_heartbeat(1).after_unreachable_call()
    assert monitor.liveness is Liveness.RUNNING


def test_without_a_threshold_unreachable_calls_are_ignored() -> None:
    monitor = new_monitor(threshold=NEVER)
    for _ in range(100):
        monitor = monitor.after_unreachable_call()
    assert monitor.liveness is Liveness.RUNNING


@given(EVENTS, EVENTS)
def test_a_verdict_is_final(
    before: list[tuple[float, str]], later: list[tuple[float, str]]
) -> None:
    now = 0.0
    monitor = new_monitor()
    for pause, event in before:
        now += pause
        monitor = apply(monitor, now, event)
    verdict = monitor.liveness
    for pause, event in later:
        now += pause
        monitor = apply(monitor, now, event)
        assert verdict is Liveness.RUNNING or monitor.liveness is verdict


@given(EVENTS)
def test_a_target_that_is_heard_from_within_every_timeout_is_never_lost(
    events: list[tuple[float, str]],
) -> None:
    now = 0.0
    monitor = new_monitor(threshold=NEVER)
    for pause, event in events:
        now += min(pause, 49)
        monitor = apply(monitor, now, event).after_heartbeat(now)
    assert monitor.liveness is Liveness.RUNNING


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"timeout": timedelta(seconds=10)}, "heartbeat.timeout"),
        ({"interval": timedelta(0)}, "heartbeat.interval"),
        ({"rpc_failure_threshold": 0}, "heartbeat.rpc-failure-threshold"),
    ],
)
def test_invalid_options_are_refused_with_their_key(values: dict[str, object], key: str) -> None:
    with pytest.raises(InvalidOption, match=key):
        HeartbeatOptions(**values)  # type: ignore[arg-type]
