"""The files through which a stream is stopped at a batch boundary."""

from pathlib import Path

import pytest

from stoker.engine.streams.boundary import MARK, guard_function
from stoker.engine.streams.control import Boundary, Decision, StreamControl, SuspendOrder

ORDER = SuspendOrder(order_id="one", limit_seconds=1, hold_seconds=2)


def test_an_order_is_seen_answered_and_decided(tmp_path: Path):
    executor, runner = StreamControl(tmp_path), StreamControl(tmp_path)
    assert runner.order() is None
    executor.suspend(ORDER)
    assert runner.order() == ORDER
    runner.answer(Boundary(order_id="one", reached=True, batch_id=3))
    answered = executor.boundary("one")
    assert answered is not None
    assert answered.batch_id == 3
    executor.decide(Decision(order_id="one", finish=True))
    decision = runner.decision("one")
    assert decision is not None
    assert decision.finish


def test_answers_and_decisions_belong_to_their_order(tmp_path: Path):
    control = StreamControl(tmp_path)
    control.answer(Boundary(order_id="former", reached=True))
    control.decide(Decision(order_id="former", finish=True))
    assert control.boundary("one") is None
    assert control.decision("one") is None


def test_a_guarded_function_lets_no_batch_begin_while_a_stop_is_ordered(tmp_path: Path):
    control = StreamControl(tmp_path)
    seen: list[int] = []
    function = guard_function(lambda _frame, batch_id: seen.append(batch_id), control.order_file)
    function(None, 0)
    control.suspend(ORDER)
    with pytest.raises(RuntimeError, match=MARK):
        function(None, 1)
    control.clear_order()
    function(None, 1)
    assert seen == [0, 1]


def test_no_order_is_written_into_the_directory_of_an_ended_attempt(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        StreamControl(tmp_path / "gone").suspend(ORDER)
    assert not (tmp_path / "gone").exists()
