"""The process in which a task's user code runs, with a Spark session of its own.

Forked warm from the zygote. It takes one task, ends, and is never used again: unless the task had
no code of its own that could have left anything here. Then it waits for another one, in another
session if anything may be left in that.
"""

import os
import queue
import signal
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from pyspark.errors import PySparkException

from stoker.core.failpoints import failpoint
from stoker.core.results import Failure, Progress
from stoker.core.states import ExecutionState
from stoker.engine.failures import failure_of, is_loss_of_server
from stoker.engine.lease import LeaseStep, lease_ran_out
from stoker.engine.lease_watch import LeaseWatch
from stoker.engine.limits import KernelLimits, let_go, naming_its_limit, take_off, take_on
from stoker.engine.protocol import (
    Cancel,
    Ended,
    LeaseRenewed,
    Leave,
    NotReady,
    Prepare,
    ProgressReport,
    Ready,
    RunnerEnd,
    RunTask,
    SessionEnded,
    SessionKept,
    SessionNotEnded,
    StateReport,
    ToRunner,
    WarmUp,
)
from stoker.engine.region.run import RegionExecution
from stoker.engine.reuse.connection import ServerConnection
from stoker.engine.reuse.session_policy import DedicatedSession
from stoker.engine.reuse.shared_session import SharedSession
from stoker.engine.reuse.templates import begin_as_copy, make_templates
from stoker.engine.runner.janitor import end_all_work, not_ended
from stoker.engine.runner.one_call import single_call
from stoker.engine.runner.python_workers import workers_of
from stoker.engine.runner.spark_tasks import has_active_tasks
from stoker.engine.runner.udfs import let_classic_udfs_run_on_connect
from stoker.osproc.orphans import WORKER_MARK, kill_marked
from stoker.osproc.parent_death import SINGLE_THREADED


class _Cancelled(BaseException):
    """Raised in the main thread, so that user code which merely waits is left at once."""


def serve_as_runner(connection: socket.socket) -> None:
    for setting in SINGLE_THREADED:
        # Meant for the zygote alone, not for what user code starts.
        os.environ.pop(setting, None)
    let_classic_udfs_run_on_connect()
    end, server = RunnerEnd(connection), ServerConnection()
    message = end.receive()
    while isinstance(message, Prepare):
        message = _serve(end, server, message)
    # Threads of user code do not keep the process.
    os._exit(0)


def _serve(end: RunnerEnd, connection: ServerConnection, prepare: Prepare) -> Prepare | None:
    """One session and its tasks; gives the next session, if this process may have another."""
    try:
        session = connection.open(prepare.url)
        # Lets user code that asks for a session by getOrCreate() have this one.
        os.environ["SPARK_REMOTE"] = prepare.url
        _set_up(session, prepare)
    except (PySparkException, grpc.RpcError) as error:
        end.send(NotReady(reason=f"{type(error).__name__}: {error}"))
        return None
    end.send(Ready(spark_version=session.version if prepare.tell_version else ""))
    message = end.receive()
    while True:
        match message:
            case WarmUp():
                _warm_up(session)
                end.send(Ready())
                message = end.receive()
            case RunTask():
                message = Runner(end, session, message, prepare).run()
            case Prepare():
                connection.release(session)
                return message
            case Leave():
                _leave(end, session)
                return None
            case _:
                return None


def _leave(end: RunnerEnd, session: Any) -> None:
    with suppress(PySparkException, grpc.RpcError):
        session.client.release_session()
        end.send(SessionEnded(session_id=session.session_id))


def _set_up(session: Any, prepare: Prepare) -> None:
    if prepare.template_is_new:
        make_templates(session.client, prepare.template, prepare.scheduler_pool)
    if prepare.template:
        begin_as_copy(session.client, prepare.template)
    elif prepare.scheduler_pool:
        session.conf.set("spark.scheduler.pool", prepare.scheduler_pool)
    if prepare.warm:
        _warm_up(session)
    if prepare.warm and prepare.first:
        # So that no cancel has to wait for it.
        with suppress(OSError):
            has_active_tasks(prepare.ui, {session.session_id})


def _warm_up(session: Any) -> None:
    with single_call(session.client):
        session.range(10).write.format("noop").mode("append").save()


class Runner:
    def __init__(self, end: RunnerEnd, session: Any, task: RunTask, prepare: Prepare) -> None:
        self._end = end
        self._session = session
        self._task = task
        self._ui = prepare.ui
        self._server_pid = prepare.server_pid
        self._closed_mark = prepare.closed_mark
        self._cancelled = threading.Event()
        self._attended = False
        """Its task executor has cancelled it, and sees to its end."""
        self._lease_ran_out = False
        self._lease = LeaseWatch(
            task.lease,
            {
                LeaseStep.END: self._end_by_itself,
                LeaseStep.FORCE: self._end_by_force,
                LeaseStep.KILL: self._end_at_any_price,
            },
        )
        self._limits_before: KernelLimits = {}
        self._ending = threading.Lock()
        self._over = False
        self._next: queue.SimpleQueue[ToRunner] = queue.SimpleQueue()
        self._policy = (
            SharedSession(session.client, prepare.template)
            if prepare.template
            else DedicatedSession()
        )
        self._run = RegionExecution(
            session, self._policy, task, self._report, self._entered_running
        )

    def run(self) -> ToRunner | None:
        """Gives what is to be done next, if nothing of the task is left in this process."""
        _move_into(Path(self._task.directory))
        signal.signal(signal.SIGTERM, self._on_cancel_signal)
        try:
            # The task was sent, and then its task executor or the machine was frozen.
            self._lease_ran_out = self._lease.due is not LeaseStep.GO_ON
            self._begin()
            ended = self._canceled() if self._lease_ran_out else self._run_task()
        except _Cancelled:
            ended = self._canceled()
        with self._ending:
            self._over = True
        sys.stdout.flush()
        sys.stderr.flush()
        self._end.send(ended)
        going_on = None if ended.state is ExecutionState.FINISHED else self._end_leftovers()
        if going_on is not None:
            self._wait_for_the_end(going_on)
        is_as_new = ended.state is ExecutionState.FINISHED and self._becomes_as_new()
        if is_as_new and self._run.empty_session():
            self._end.send(SessionKept())
        elif (session_ended := self._end_session(is_as_new=is_as_new)) is not None:
            self._end.send(session_ended)
        else:
            return None
        return self._next.get() if is_as_new else None

    def _end_session(self, *, is_as_new: bool) -> SessionEnded | None:
        try:
            workers = self._close_session()
        except (PySparkException, grpc.RpcError):
            return None
        session_id = self._session.session_id
        return SessionEnded(session_id=session_id, workers=workers, is_as_new=is_as_new)

    def _becomes_as_new(self) -> bool:
        """What the task could not have changed is as it was; this is the rest."""
        if not self._run.leaves_process_clean or self._cancelled.is_set() or not self._lease.end():
            # Who cancels it, or a step of its lease, may be about to end this process.
            return False
        take_off(self._limits_before)
        # That of the attempt is about to be removed.
        os.chdir("/")
        return True

    def _begin(self) -> None:
        # Its threads do not count as the task's memory.
        self._lease.start()
        if self._task.limits is not None:
            self._limits_before = take_on(self._task.limits)
        threading.Thread(target=self._listen, name="control", daemon=True).start()
        if self._task.resumed is None:
            self._state(ExecutionState.INITIALIZING)

    def _wait_for_the_end(self, going_on: SessionNotEnded) -> None:
        """The janitor goes on, after this process has gone; if nobody calls it, the lease ends."""
        self._end.send(going_on)
        threading.Event().wait()

    def _run_task(self) -> Ended:
        try:
            self._run.run()
        except _Cancelled:
            return self._canceled()
        # The border to user code: whatever comes out of it is the task's failure.
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if self._cancelled.is_set():
                return self._canceled()
            let_go()
            failure = self._failure_of(error)
            print(failure.stack_trace, file=sys.stderr)
            return Ended(
                state=ExecutionState.FAILED,
                failure=failure,
                progress=self._run.progress,
                server_lost=is_loss_of_server(error),
            )
        if self._cancelled.is_set() and self._run.query is not None:
            # A stopped stream ends like one that has read everything.
            return self._canceled()
        return Ended(state=ExecutionState.FINISHED, progress=self._run.final_progress())

    def _failure_of(self, error: BaseException) -> Failure:
        return naming_its_limit(failure_of(error), error, self._task.limits)

    def _canceled(self) -> Ended:
        failure = lease_ran_out() if self._lease_ran_out and not self._attended else None
        return Ended(state=ExecutionState.CANCELED, failure=failure, progress=self._run.progress)

    def _end_leftovers(self) -> SessionNotEnded | None:
        try:
            end_all_work(self._session, self._ui, self._task.deaf_after)
        except (PySparkException, grpc.RpcError, OSError) as error:
            return not_ended(self._session.session_id, error)
        return None

    def _close_session(self) -> str:
        """From now on nothing can begin in it; gives the mark of its workers."""
        may_have_workers = self._policy.may_have_workers
        # Not asked for without need: that looks at each thread of the server.
        workers = workers_of(self._session, self._server_pid) if may_have_workers else ""
        self._session.client.release_session()
        if self._lease_ran_out and workers:
            # The task executor, whose business it is, may be frozen.
            kill_marked(WORKER_MARK, workers)
        if self._lease_ran_out and self._closed_mark:
            Path(self._closed_mark).touch()
        return workers

    def _listen(self) -> None:
        while (message := self._end.receive()) is not None:
            match message:
                case Cancel():
                    self._attended = True
                    self._interrupt()
                case LeaseRenewed(until=until):
                    self._lease.renew(until)
                case Prepare() | RunTask() | Leave():
                    # What comes after it is for the next task.
                    self._next.put(message)
                    return
        # The task executor is gone: nothing that this task started may outlive it.
        os.killpg(0, signal.SIGKILL)

    def _interrupt(self) -> None:
        with self._ending:
            if self._over or self._cancelled.is_set():
                return
            self._cancelled.set()
            # To this thread by name: a signal to the process may land in one of gRPC's threads
            # and leave a main thread that sleeps asleep.
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGTERM)
        with suppress(PySparkException, grpc.RpcError):
            self._session.interruptAll()

    def _on_cancel_signal(self, _signal: int, _frame: object) -> None:
        if self._cancelled.is_set() and not self._over:
            raise _Cancelled

    # The lease runs out: its task executor may be frozen, and cannot do any of this

    def _end_by_itself(self) -> None:
        failpoint("lease.before-ending")
        self._lease_ran_out = True
        self._interrupt()

    def _end_by_force(self) -> None:
        """The main thread may wait for a task executor that reads nothing, or for user code."""
        if not self._attended and self._end_leftovers() is None:
            with suppress(PySparkException, grpc.RpcError):
                self._close_session()
                os.killpg(0, signal.SIGKILL)

    def _end_at_any_price(self) -> None:
        """A task executor that could act would have cancelled the task by now.

        What is left at the Spark server is its warden's business.
        """
        if not self._attended:
            os.killpg(0, signal.SIGKILL)

    def _state(self, state: ExecutionState) -> None:
        self._end.send(StateReport(state=state))

    def _entered_running(self) -> None:
        self._state(ExecutionState.RUNNING)

    def _report(self, progress: Progress) -> None:
        self._end.send(ProgressReport(progress=progress))


def _move_into(directory: Path) -> None:
    """Make the attempt's directory the place of the task's files, temporary ones too."""
    temporary = directory / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = str(temporary)
    tempfile.tempdir = None
    os.chdir(directory)
