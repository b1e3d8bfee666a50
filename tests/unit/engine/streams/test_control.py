"""The files through which a stream is stopped at a batch boundary."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from stoker.engine.python_worker.stoker_python_daemon import PIPES
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


def test_a_guarded_function_prints_into_the_pipes_of_its_attempt(tmp_path: Path, capfd) -> None:
    """It runs in a worker that Spark starts for itself, and later batches in the same one."""
    pipes = []
    for name in PIPES:
        os.mkfifo(tmp_path / name)
        pipes.append(os.open(tmp_path / name, os.O_RDWR | os.O_NONBLOCK))

    def write(_frame: object, batch_id: int) -> None:
        print("batch", batch_id)
        print("oops", file=sys.stderr)

    function = guard_function(write, tmp_path / "order", tmp_path)
    function(None, 0)
    function(None, 1)
    print("between two batches")
    assert os.read(pipes[0], 1000) == b"batch 0\nbatch 1\n"
    assert os.read(pipes[1], 1000) == b"oops\noops\n"
    assert capfd.readouterr().out == "between two batches\n"
    for pipe in pipes:
        os.close(pipe)


def test_a_guarded_function_works_without_the_pipes_of_an_ended_attempt(
    tmp_path: Path, capfd
) -> None:
    function = guard_function(
        lambda _frame, batch_id: print(batch_id), tmp_path / "order", tmp_path / "gone"
    )
    function(None, 7)
    assert capfd.readouterr().out == "7\n"


def test_a_guarded_function_needs_no_stoker_where_it_runs(tmp_path: Path) -> None:
    for name in PIPES:
        os.mkfifo(tmp_path / name)
    pipe = os.open(tmp_path / PIPES[0], os.O_RDWR | os.O_NONBLOCK)

    def write(_frame: object, batch_id: int) -> None:
        print("batch", batch_id)

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        payload = cloudpickle.dumps(guard_function(write, tmp_path / "order", tmp_path))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    code = (
        "import pickle, sys; sys.modules['stoker'] = None; "
        "pickle.loads(sys.stdin.buffer.read())(None, 3)"
    )
    subprocess.run([sys.executable, "-c", code], input=payload, check=True, timeout=60)
    assert os.read(pipe, 1000) == b"batch 3\n"
    os.close(pipe)
