"""A task and its runners, which follow a script."""

import asyncio
import errno
import math
import signal
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import build_graph, build_streaming_vertices
from stoker.core.errors import StokerError, Unavailable
from stoker.core.ids import AttemptId
from stoker.core.regions import regions_of
from stoker.core.results import COLLATERAL, AttemptOutcome, Progress
from stoker.core.states import ExecutionState
from stoker.engine.connect.launcher import WarmRunner
from stoker.engine.connect.server import KillReason
from stoker.engine.connect.task import ConnectTask, TaskResources
from stoker.engine.contract import StateChanged, Task, TaskEvent
from stoker.engine.options import EngineOptions
from stoker.engine.protocol import (
    Cancel,
    Ended,
    FromRunner,
    LeaseRenewed,
    Leave,
    Malformed,
    ProgressReport,
    RunTask,
    SessionEnded,
    SessionKept,
    SessionNotEnded,
    StateReport,
    ToRunner,
)
from stoker.osproc.exit import ProcessExit
from stoker.testing.virtual_time import run_virtual, virtual_wall_clock

RUNNING = StateReport(state=ExecutionState.RUNNING)
CLEAN = StateReport(state=ExecutionState.INITIALIZING, leaves_process_clean=True)
KNOWN = Progress(query_id="query", run_id="run", batch_id=4)
FINISHED = Ended(state=ExecutionState.FINISHED)
RELEASED = SessionEnded(session_id="session")
REUSABLE = SessionEnded(session_id="session", is_reusable=True)
KEPT = SessionKept()


class FakeProcess:
    """A runner that sends the given messages, one per second, and then dies or stays silent."""

    pid = None

    def __init__(self, *says: FromRunner, dies: bool = False) -> None:
        self._says = list(says)
        self._dies = dies
        self.received: list[ToRunner] = []
        self.logs_to_default = False
        self.killed = asyncio.Event()

    @property
    def is_alive(self) -> bool:
        return not self.killed.is_set()

    def log_to(self, directory: Path) -> None: ...

    def log_to_default(self) -> None:
        self.logs_to_default = True

    async def send(self, message: ToRunner) -> None:
        self.received.append(message)

    def post(self, message: ToRunner) -> None:
        self.received.append(message)

    async def receive(self) -> FromRunner | None:
        await asyncio.sleep(1)
        if self._says:
            return self._says.pop(0)
        if not self._dies:
            await self.killed.wait()
        return None

    async def flush_output(self) -> None: ...

    async def kill(self) -> ProcessExit:
        self.killed.set()
        return ProcessExit(code=-signal.SIGKILL)


@dataclass
class FakeWatchdog:
    """Records each deadline of the session, and None for its release."""

    deadlines: list[float | None] = field(default_factory=list)

    def watch(self, session_id: str, until: float, runner: int | None) -> None:
        assert session_id == "session"
        self.deadlines.append(until)

    def unwatch(self, session_id: str) -> None:
        assert session_id == "session"
        self.deadlines.append(None)


@dataclass
class TaskHarness:
    """A task with scripted runners. It also stands in for the pool and the session clean-up."""

    runners: list[FakeProcess]
    """In the order in which the task gets them."""
    streaming: bool = False
    options: EngineOptions = field(default_factory=EngineOptions)
    events: list[TaskEvent] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    lease_seconds: float = math.inf
    watchdog: FakeWatchdog = field(default_factory=FakeWatchdog)
    kill_at: float | None = None
    takes_back: bool = True
    given_back: list[FakeProcess] = field(default_factory=list)
    sessions_given_back: list[bool] = field(default_factory=list)

    def take_back(self, runner: WarmRunner, *, with_session: bool) -> bool:
        assert None in self.watchdog.deadlines, "taken back while its work may continue"
        self.given_back.append(runner.process)  # type: ignore[arg-type]
        self.sessions_given_back.append(with_session)
        return self.takes_back

    async def attach(self, server: Any, session_id: str) -> WarmRunner | StokerError:
        if not self.runners:
            return Unavailable("no runner")
        return replace(self.runner, process=self.runners.pop(0))  # type: ignore[arg-type]

    async def end(self, server: Any, session_id: str, *, kill_at: float) -> SessionEnded | None:
        if server.died.done():
            return None
        self.kill_at = kill_at
        if not self.given_back:
            assert None not in self.watchdog.deadlines, "released before its work was ended"
        self.ended.append(session_id)
        return RELEASED

    def begin(self) -> ConnectTask:
        server: Any = type("Server", (), {})()
        server.died = asyncio.get_running_loop().create_future()
        server.ui = "http://spark"
        server.watchdog = self.watchdog
        server.kill_reason = KillReason()
        server.kill = lambda reason, **_: server.died.set_result(
            ProcessExit(code=-signal.SIGKILL, explanation=reason)
        )
        first: Any = self.runners.pop(0)
        self.server = server
        self.runner = WarmRunner(
            process=first, server=server, session_id="session", spark_version="4"
        )
        resources: Any = TaskResources(
            options=self.options,
            machine_memory=2**30,
            pool=self,  # type: ignore[arg-type]
            sessions=self,  # type: ignore[arg-type]
            wall_clock=virtual_wall_clock(),
        )
        return ConnectTask(self._task(), self.runner, self.events.append, resources)

    def _task(self) -> Task:
        graph = build_graph(*(build_streaming_vertices() if self.streaming else ()))
        return Task(
            graph=graph,
            region=regions_of(graph)[-1],
            attempt=AttemptId("a" * 32),
            attempt_number=0,
            directory=Path("/nowhere"),
            materialized_root="file:///m",
            checkpoint_root="file:///c",
            lease_until=asyncio.get_running_loop().time() + self.lease_seconds,
            lease_margin=1,
        )

    def outcome(self, act: Any = None) -> AttemptOutcome:
        async def main() -> AttemptOutcome:
            running = self.begin()
            if act is not None:
                await act(running)
            return await running.outcome()

        return run_virtual(main)


def test_a_batch_task_that_runs_too_long_fails_and_is_killed() -> None:
    runner = run_virtual(_make(RUNNING))
    options = EngineOptions(runner_run_time=timedelta(seconds=30))
    outcome = TaskHarness([runner], options=options).outcome()
    assert outcome.failure is not None
    assert outcome.failure.error == "RunTimeExceeded"
    assert not runner.is_alive


def test_the_run_time_limit_does_not_apply_to_streams() -> None:
    options = EngineOptions(runner_run_time=timedelta(seconds=3))
    says = [RUNNING, *[ProgressReport(progress=KNOWN)] * 20, FINISHED, RELEASED]
    outcome = TaskHarness([run_virtual(_make(*says))], streaming=True, options=options).outcome()
    assert outcome.state is ExecutionState.FINISHED


def test_a_stream_whose_runner_died_is_watched_by_the_next_runner() -> None:
    first = run_virtual(_make(RUNNING, ProgressReport(progress=KNOWN), dies=True))
    second = run_virtual(_make(FINISHED, RELEASED))
    harness = TaskHarness([first, second], streaming=True)
    assert harness.outcome().state is ExecutionState.FINISHED
    [task] = [message for message in second.received if isinstance(message, RunTask)]
    assert task.resumed == KNOWN
    assert [event for event in harness.events if isinstance(event, StateChanged)] == [
        StateChanged(ExecutionState.RUNNING)
    ]


@pytest.mark.parametrize("runners", [1, 9])
def test_a_task_fails_when_its_runners_keep_dying(runners: int) -> None:
    first = run_virtual(_make(RUNNING, ProgressReport(progress=KNOWN), dies=True))
    others = [run_virtual(_make(dies=True)) for _ in range(runners - 1)]
    harness = TaskHarness([first, *others], streaming=True)
    outcome = harness.outcome()
    assert outcome.failure is not None
    assert outcome.failure.error == "RunnerDied"
    assert harness.ended == ["session"], "its work at the server has ended"


def test_a_batch_task_fails_when_its_runner_dies() -> None:
    harness = TaskHarness([run_virtual(_make(RUNNING, dies=True)), run_virtual(_make(FINISHED))])
    outcome = harness.outcome()
    assert outcome.failure is not None
    assert "SIGKILL" in outcome.failure.message


def too_many_open_files(*_arguments: object, **_named: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_task_whose_log_cannot_be_opened_fails_and_leaves_nothing_behind() -> None:
    runner = run_virtual(_make())
    runner.log_to = too_many_open_files
    harness = TaskHarness([runner], lease_seconds=10)
    outcome = harness.outcome()
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert "Too many open files" in outcome.failure.message
    assert outcome.failure.retriable
    assert not runner.is_alive
    assert harness.ended == ["session"]
    assert harness.watchdog.deadlines[-1] is None, "the server is not killed for the task later"


def test_a_task_whose_python_workers_cannot_be_killed_yet_has_no_outcome_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = SessionEnded(session_id="session", workers="mark")
    runner = run_virtual(_make(RUNNING, Ended(state=ExecutionState.FAILED), ended))
    harness = TaskHarness([runner], lease_seconds=100)
    tries: list[str] = []

    async def run_in_thread(_kill_marked: Any, _name: str, mark: str) -> None:
        assert None not in harness.watchdog.deadlines, "released while its work may continue"
        tries.append(mark)
        if len(tries) < 3:
            too_many_open_files()

    # There are no threads on virtual time.
    monkeypatch.setattr(asyncio, "to_thread", run_in_thread)
    assert harness.outcome().state is ExecutionState.FAILED
    assert tries == ["mark"] * 3
    assert harness.watchdog.deadlines[-1] is None
    assert not harness.server.died.done()


def test_a_session_that_no_janitor_can_end_yet_is_ended_later() -> None:
    harness = TaskHarness([run_virtual(_make(RUNNING, dies=True))])
    janitor, tries = harness.end, []

    async def end(server: Any, session_id: str, *, kill_at: float) -> SessionEnded | None:
        tries.append(session_id)
        if len(tries) < 3:
            too_many_open_files()
        return await janitor(server, session_id, kill_at=kill_at)

    harness.end = end  # type: ignore[method-assign]
    assert harness.outcome().state is ExecutionState.FAILED
    assert tries == ["session"] * 3
    assert harness.ended == ["session"]
    assert not harness.server.died.done()


@pytest.mark.parametrize("said", [REUSABLE, KEPT])
def test_a_runner_whose_output_cannot_leave_the_log_of_its_task_is_not_reused(
    said: FromRunner,
) -> None:
    runner = run_virtual(_make(CLEAN, FINISHED, said, RELEASED))
    runner.log_to_default = too_many_open_files
    harness = TaskHarness([runner])
    assert harness.outcome().state is ExecutionState.FINISHED
    assert harness.given_back == []
    assert harness.ended == [], "the runner has ended its session itself"
    assert not runner.is_alive


def test_a_cancellation_without_a_runner_reaches_the_next_runner() -> None:
    first = run_virtual(_make(RUNNING, ProgressReport(progress=KNOWN), dies=True))
    ended = Ended(state=ExecutionState.CANCELED)
    second = run_virtual(_make(ended, RELEASED))
    harness = TaskHarness([first, second], streaming=True)

    async def slow_attach(server: Any, session_id: str) -> WarmRunner | StokerError:
        await asyncio.sleep(3)
        return await TaskHarness.attach(harness, server, session_id)

    harness.attach = slow_attach  # type: ignore[method-assign]

    async def cancel(running: ConnectTask) -> None:
        await asyncio.sleep(4.5)
        await running.cancel()

    assert harness.outcome(cancel).state is ExecutionState.CANCELED
    assert any(isinstance(message, Cancel) for message in second.received)


def test_a_task_that_is_killed_without_a_runner_does_not_start_the_next_one() -> None:
    first = run_virtual(_make(RUNNING, ProgressReport(progress=KNOWN), dies=True))
    second = run_virtual(_make())
    harness = TaskHarness([first, second], streaming=True)

    async def slow_attach(server: Any, session_id: str) -> WarmRunner | StokerError:
        await asyncio.sleep(3)
        return await TaskHarness.attach(harness, server, session_id)

    harness.attach = slow_attach  # type: ignore[method-assign]

    async def kill(running: ConnectTask) -> None:
        await asyncio.sleep(4.5)
        await running.kill()

    assert harness.outcome(kill).state is ExecutionState.CANCELED
    assert second.received == []
    assert not second.is_alive


@pytest.mark.parametrize(("said", "with_session"), [(REUSABLE, False), (KEPT, True)])
def test_a_runner_without_traces_of_its_task_returns_to_the_pool_alive(
    said: FromRunner, with_session: bool
) -> None:
    runner = run_virtual(_make(CLEAN, FINISHED, said))
    harness = TaskHarness([runner])
    assert harness.outcome().state is ExecutionState.FINISHED
    assert harness.given_back == [runner]
    assert harness.sessions_given_back == [with_session]
    assert runner.is_alive
    assert runner.logs_to_default
    assert harness.ended == [], "the runner has ended its session itself"


def test_a_runner_that_the_pool_refuses_ends() -> None:
    runner = run_virtual(_make(CLEAN, FINISHED, REUSABLE))
    harness = TaskHarness([runner], takes_back=False)
    assert harness.outcome().state is ExecutionState.FINISHED
    assert not runner.is_alive


@pytest.mark.parametrize(("answers", "ended"), [([RELEASED], []), ([], ["session"])])
def test_the_session_of_a_refused_runner_is_ended_by_the_runner_or_the_janitor(
    answers: list[FromRunner], ended: list[str]
) -> None:
    runner = run_virtual(_make(CLEAN, FINISHED, KEPT, *answers))
    harness = TaskHarness([runner], takes_back=False)
    assert harness.outcome().state is ExecutionState.FINISHED
    assert isinstance(runner.received[-1], Leave)
    assert not runner.is_alive
    assert harness.ended == ended


def test_a_runner_that_is_not_reusable_ends() -> None:
    runner = run_virtual(_make(RUNNING, FINISHED, RELEASED))
    harness = TaskHarness([runner])
    harness.outcome()
    assert harness.given_back == []
    assert not runner.is_alive


@pytest.mark.parametrize("said", [REUSABLE, KEPT])
@pytest.mark.parametrize("first", [RUNNING, StateReport(state=ExecutionState.INITIALIZING)])
def test_a_process_is_not_reused_because_code_of_the_job_says_so(
    first: FromRunner, said: FromRunner
) -> None:
    """Only the first report is sent before the job's code is loaded."""
    runner = run_virtual(_make(first, CLEAN, FINISHED, said, RELEASED))
    harness = TaskHarness([runner])
    assert harness.outcome().state is ExecutionState.FINISHED
    assert harness.given_back == []
    assert not runner.is_alive


def test_a_process_that_takes_over_a_stream_is_not_reused() -> None:
    first = run_virtual(_make(RUNNING, ProgressReport(progress=KNOWN), dies=True))
    second = run_virtual(_make(CLEAN, FINISHED, REUSABLE))
    harness = TaskHarness([first, second], streaming=True)
    assert harness.outcome().state is ExecutionState.FINISHED
    assert harness.given_back == []


def test_a_report_that_is_malformed_fails_the_task_and_ends_its_process_and_work() -> None:
    runner = run_virtual(_make(RUNNING, Malformed(reason="no message"), FINISHED, KEPT))  # type: ignore[arg-type]
    harness = TaskHarness([runner])
    outcome = harness.outcome()
    assert outcome.state is ExecutionState.FAILED
    assert outcome.failure is not None
    assert outcome.failure.error == "MalformedReport"
    assert "no message" in outcome.failure.message
    assert not runner.is_alive
    assert harness.ended == ["session"], "the janitor has ended the work"


@pytest.mark.parametrize("said", [REUSABLE, KEPT])
def test_calls_to_a_task_that_has_ended_do_not_reach_its_reused_runner(
    said: FromRunner,
) -> None:
    runner = run_virtual(_make(CLEAN, FINISHED, said))

    async def too_late(running: ConnectTask) -> None:
        await running.outcome()
        received = list(runner.received)
        running.renew_lease(asyncio.get_running_loop().time() + 99)
        await running.cancel()
        await running.kill()
        assert runner.received == received

    TaskHarness([runner], lease_seconds=10).outcome(too_late)
    assert runner.is_alive


def test_progress_names_the_address_of_the_spark_web_page() -> None:
    runner = run_virtual(_make(RUNNING, FINISHED, RELEASED))
    assert TaskHarness([runner]).outcome().progress.spark_ui == "http://spark"


def test_a_runner_receives_renewals_once_it_has_the_task_and_its_lease() -> None:
    runner = run_virtual(_make(RUNNING, FINISHED, RELEASED))

    async def renew(running: ConnectTask) -> None:
        began = asyncio.get_running_loop().time()
        running.renew_lease(began + 20)
        await asyncio.sleep(0.5)
        running.renew_lease(began + 30)

    TaskHarness([runner], lease_seconds=10).outcome(renew)
    task, renewal = runner.received
    assert isinstance(task, RunTask)
    assert isinstance(renewal, LeaseRenewed)
    assert renewal.until - task.lease.until == 10


def test_the_next_runner_of_a_stream_gets_the_current_lease() -> None:
    first = run_virtual(_make(RUNNING, ProgressReport(progress=KNOWN), dies=True))
    second = run_virtual(_make(FINISHED, RELEASED))

    async def renew(running: ConnectTask) -> None:
        await asyncio.sleep(0.5)
        running.renew_lease(asyncio.get_running_loop().time() + 99.5)

    TaskHarness([first, second], streaming=True, lease_seconds=10).outcome(renew)
    before, after = first.received[0], second.received[0]
    assert isinstance(before, RunTask)
    assert isinstance(after, RunTask)
    assert after.lease.until - before.lease.until == 90


def test_a_stream_whose_runner_ended_with_the_lease_is_not_taken_over() -> None:
    first = run_virtual(_make(RUNNING, ProgressReport(progress=KNOWN), dies=True))
    second = run_virtual(_make(FINISHED, RELEASED))
    outcome = TaskHarness([first, second], streaming=True, lease_seconds=3).outcome()
    assert outcome.state is ExecutionState.CANCELED
    assert outcome.failure is not None
    assert "lease has expired" in outcome.failure.message
    assert second.received == []


def test_the_watchdog_watches_the_lease_until_nothing_of_the_task_is_left() -> None:
    first = run_virtual(_make(RUNNING, ProgressReport(progress=KNOWN), dies=True))
    second = run_virtual(_make(Ended(state=ExecutionState.FAILED), dies=True))
    harness = TaskHarness([first, second], streaming=True, lease_seconds=10)
    began: list[float] = []

    async def renew(running: ConnectTask) -> None:
        began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.5)
        running.renew_lease(began[0] + 100)

    assert harness.outcome(renew).state is ExecutionState.FAILED
    assert harness.ended == ["session"]
    # At the start, at the renewal, for the next runner, and when the session was ended.
    assert harness.watchdog.deadlines == [began[0] + 10, began[0] + 100, began[0] + 100, None]


def test_a_finished_task_is_reported_before_its_session_is_cleaned_up() -> None:
    runner = run_virtual(_make(RUNNING, FINISHED))
    harness = TaskHarness([runner], lease_seconds=10)

    async def late_end(server: Any, session_id: str, *, kill_at: float) -> SessionEnded:
        assert harness.watchdog.deadlines[-1] is None
        return RELEASED

    harness.end = late_end  # type: ignore[method-assign]
    assert harness.outcome().state is ExecutionState.FINISHED


def test_a_cancellation_at_the_end_of_a_lease_leaves_time_to_end_the_work_in_spark() -> None:
    runner = run_virtual(_make(RUNNING))
    harness = TaskHarness([runner], options=EngineOptions(cancellation_grace=timedelta(seconds=60)))
    harness.lease_seconds = 5
    took: list[float] = []

    async def cancel(running: ConnectTask) -> None:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(4)
        await running.cancel()
        took.append(asyncio.get_running_loop().time() - began)

    harness.outcome(cancel)
    assert took == [4.5], "half of the margin of a second is left"


@pytest.mark.parametrize("uninterruptible", [True, False])
def test_only_uninterruptible_spark_tasks_get_the_server_killed(uninterruptible: bool) -> None:
    going_on = SessionNotEnded(
        session_id="session", reason="nobody answers", uninterruptible=uninterruptible
    )
    runner = run_virtual(_make(RUNNING, Ended(state=ExecutionState.CANCELED), going_on))
    harness = TaskHarness([runner])

    async def cancel(running: ConnectTask) -> None:
        await running.cancel()

    assert harness.outcome(cancel).state is ExecutionState.CANCELED
    assert harness.server.died.done() is uninterruptible
    assert harness.ended == ([] if uninterruptible else ["session"])
    if uninterruptible:
        assert "task.cancellation.timeout" in harness.server.died.result().describe()


@pytest.mark.parametrize(("timeout", "seconds"), [(7, 7), (0, math.inf)])
def test_the_time_spent_killing_the_runner_counts_towards_the_timeout(
    timeout: int, seconds: float
) -> None:
    runner = run_virtual(_make(RUNNING))
    options = EngineOptions(
        cancellation_grace=timedelta(seconds=5), cancellation_timeout=timedelta(seconds=timeout)
    )
    harness, asked = TaskHarness([runner], options=options), []

    async def cancel(running: ConnectTask) -> None:
        await asyncio.sleep(2)
        asked.append(asyncio.get_running_loop().time())
        await running.cancel()

    harness.outcome(cancel)
    assert harness.kill_at == asked[0] + seconds
    [task] = [message for message in runner.received if isinstance(message, RunTask)]
    assert task.uninterruptible_after == seconds


@pytest.mark.parametrize(("reason", "labels"), [("", {}), ("for others", {"cause": COLLATERAL})])
def test_a_server_killed_because_of_another_task_is_collateral_for_this_one(
    reason: str, labels: dict[str, str]
) -> None:
    harness = TaskHarness([run_virtual(_make(RUNNING))])

    async def end_server(running: ConnectTask) -> None:
        await asyncio.sleep(2)
        harness.server.kill_reason.text = reason
        harness.server.kill_reason.is_collateral = bool(reason)
        harness.server.died.set_result(ProcessExit(code=1, explanation=reason))

    failure = harness.outcome(end_server).failure
    assert failure is not None
    assert failure.error == "SparkServerDied"
    assert failure.labels == labels


async def _process(*says: FromRunner, dies: bool = False) -> FakeProcess:
    return FakeProcess(*says, dies=dies)


def _make(*says: FromRunner, dies: bool = False) -> Any:
    return lambda: _process(*says, dies=dies)
