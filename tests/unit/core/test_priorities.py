from datetime import timedelta

from stoker.core.priorities import aged_priority


def test_every_full_step_of_waiting_raises_the_priority_by_one() -> None:
    assert aged_priority(1, timedelta(seconds=601), timedelta(seconds=300)) == 3
    assert aged_priority(1, timedelta(seconds=-601), timedelta(seconds=300)) == 1


def test_ageing_can_be_switched_off() -> None:
    assert aged_priority(1, timedelta(days=365), timedelta(0)) == 1
