"""The runner: the process in which a task's user code runs, with a Spark session of its own.

A runner is forked from the zygote with everything imported, takes one task and exits. If the task
brought no code that could have left anything behind, the runner takes another task, and a new
session if anything may be left in the old one.

The main thread runs user code. A control thread receives messages and interrupts the main thread by
a signal. Lease threads end the task when its lease expires, because a frozen task executor cannot.
When the task executor is dead, the process group kills itself.
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
from stoker.core.graph import Program
from stoker.core.results import Failure, Progress
from stoker.core.states import ExecutionState
from stoker.engine.failures import is_loss_of_server
from stoker.engine.lease import LeaseStep, LeaseThreads, lease_expired
from stoker.engine.limits import (
    KernelLimits,
    apply_limits,
    name_limit,
    release_memory_limit,
    restore_limits,
)
from stoker.engine.protocol import (
    ZYGOTE_ENVIRONMENT,
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
from stoker.engine.python_workers import WorkerMemoryWatch, WorkersOfSession
from stoker.engine.region.catalog_guard import guard_connect_sessions
from stoker.engine.region.plan_paths import resolve_paths_of_clients
from stoker.engine.region.run import RegionExecution
from stoker.engine.reuse.connection import ServerConnection
from stoker.engine.reuse.session_policy import DedicatedSession
from stoker.engine.reuse.shared_session import SharedSession
from stoker.engine.reuse.templates import make_templates, start_as_copy
from stoker.engine.runner.janitor import (
    end_all_work,
    has_active_tasks,
    python_workers_of,
    session_not_ended,
)
from stoker.engine.runner.pyspark_client import run_classic_udfs_on_connect, single_call
from stoker.gateways.attempt_logs import FAILURE_MARK
from stoker.osproc.orphans import WORKER_MARK, kill_marked
from stoker.osproc.private_files import make_private_directory


class _Cancelled(BaseException):
    """Raised in the main thread, to interrupt user code even while it waits."""


def serve_as_runner(connection: socket.socket) -> None:
    for setting in ZYGOTE_ENVIRONMENT:
        # Meant for the zygote, not for processes that user code starts.
        os.environ.pop(setting, None)
    run_classic_udfs_on_connect()
    guard_connect_sessions()
    for stream in (sys.stdout, sys.stderr):
        # What user code prints can be followed while it runs.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    end, server = RunnerEnd(connection), ServerConnection()
    message = end.receive()
    while isinstance(message, Prepare):
        message = _serve(end, server, message)
    # Do not wait for threads of user code.
    os._exit(0)


def _serve(end: RunnerEnd, connection: ServerConnection, prepare: Prepare) -> Prepare | None:
    """Serve one session and its tasks; return the request for another session, or None."""
    try:
        session = connection.open(prepare.url)
        # User code that calls getOrCreate() gets this session.
        os.environ["SPARK_REMOTE"] = prepare.url
        _set_up(session, prepare)
    except (PySparkException, grpc.RpcError) as error:
        end.send(NotReady(reason=f"{type(error).__name__}: {error}"))
        return None
    end.send(Ready(spark_version=session.version if prepare.report_version else ""))
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
                _close_idle_session(end, session)
                return None
            case _:
                return None


def _close_idle_session(end: RunnerEnd, session: Any) -> None:
    with suppress(PySparkException, grpc.RpcError):
        session.client.release_session()
        end.send(SessionEnded(session_id=session.session_id))


def _set_up(session: Any, prepare: Prepare) -> None:
    if prepare.is_template_new:
        make_templates(session.client, prepare.template, prepare.scheduler_pool)
    if prepare.template:
        start_as_copy(session.client, prepare.template)
    elif prepare.scheduler_pool:
        session.conf.set("spark.scheduler.pool", prepare.scheduler_pool)
    if prepare.warm:
        _warm_up(session)
    if prepare.warm and prepare.first:
        # The first answer takes seconds. Get it now, so that no cancellation has to wait for it.
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
        self._closed_marker = prepare.closed_marker
        self._cancelled = threading.Event()
        self._is_cancelled_by_executor = False
        """Whether the task executor has cancelled the task, and so will see to its end."""
        self._is_lease_expired = False
        self._lease = LeaseThreads(
            task.lease,
            {
                LeaseStep.END: self._end_like_a_cancellation,
                LeaseStep.FORCE: self._end_by_force,
                LeaseStep.KILL: self._kill_own_group,
            },
        )
        self._limits_before: KernelLimits = {}
        self._workers = self._watch_of_workers(prepare.server_pid)
        self._ending = threading.Lock()
        self._over = False
        self._next: queue.SimpleQueue[ToRunner] = queue.SimpleQueue()
        self._policy = (
            SharedSession(session.client, prepare.template)
            if prepare.template
            else DedicatedSession()
        )
        self._run = RegionExecution(
            session,
            self._policy,
            task,
            self._send_progress,
            self._send_running,
            resolve_paths_of_clients,
        )

    def _watch_of_workers(self, server_pid: int) -> WorkerMemoryWatch | None:
        limits = self._task.limits
        if limits is None:
            return None

        def ask_mark() -> str:
            # Until the session is this task's alone, any call could change it for other tasks.
            if not self._policy.may_have_workers:
                return ""
            with suppress(PySparkException, grpc.RpcError, RuntimeError):
                return python_workers_of(self._session, server_pid)
            return ""

        return WorkerMemoryWatch(WorkersOfSession(server_pid, ask_mark), limits.memory_of_workers)

    def run(self) -> ToRunner | None:
        """Run the task; return the next message if nothing of the task is left in this process."""
        _enter_directory(Path(self._task.directory))
        signal.signal(signal.SIGTERM, self._on_cancel_signal)
        try:
            # The task executor or the machine may have been frozen after the task was sent.
            self._is_lease_expired = self._lease.due is not LeaseStep.CONTINUE
            self._start_threads()
            ended = self._canceled() if self._is_lease_expired else self._run_task()
        except _Cancelled:
            ended = self._canceled()
        with self._ending:
            self._over = True
        if self._workers is not None:
            self._workers.stop()
        self._run.finish_output()
        sys.stdout.flush()
        sys.stderr.flush()
        self._end.send(ended)
        not_ended = None if ended.state is ExecutionState.FINISHED else self._end_leftovers()
        if not_ended is not None:
            self._wait_to_be_killed(not_ended)
        is_reusable = ended.state is ExecutionState.FINISHED and self._is_reusable()
        if is_reusable and self._run.empty_session():
            self._end.send(SessionKept())
        elif (session_ended := self._end_session(is_reusable=is_reusable)) is not None:
            self._end.send(session_ended)
        else:
            return None
        return self._next.get() if is_reusable else None

    def _end_session(self, *, is_reusable: bool) -> SessionEnded | None:
        try:
            workers = self._close_session()
        except (PySparkException, grpc.RpcError):
            return None
        session_id = self._session.session_id
        return SessionEnded(session_id=session_id, workers=workers, is_reusable=is_reusable)

    def _is_reusable(self) -> bool:
        """Undo what this process did for the task; return whether it may take another one."""
        if not self._run.leaves_process_clean or self._cancelled.is_set() or not self._lease.stop():
            # A cancellation or a step of the lease may be about to end this process.
            return False
        restore_limits(self._limits_before)
        resolve_paths_of_clients(None)
        # The directory of the attempt is about to be removed.
        os.chdir("/")
        return True

    def _start_threads(self) -> None:
        # Before the limits: these threads do not count as memory of the task.
        self._lease.start()
        if self._workers is not None:
            self._workers.start()
        if self._task.limits is not None:
            self._limits_before = apply_limits(self._task.limits)
        threading.Thread(target=self._receive_messages, name="control", daemon=True).start()
        if self._task.resumed is None:
            # The job's code may send reports in this process's name, but it is not loaded yet.
            leaves_clean = self._policy.judge(self._task)
            self._end.send(
                StateReport(state=ExecutionState.INITIALIZING, leaves_process_clean=leaves_clean)
            )

    def _wait_to_be_killed(self, not_ended: SessionNotEnded) -> None:
        """Report the work that has not ended, and wait.

        The task executor kills this process and lets a janitor end the work. If the task executor
        is frozen, the lease ends this process.
        """
        self._end.send(not_ended)
        threading.Event().wait()

    def _run_task(self) -> Ended:
        try:
            self._run.run()
        except _Cancelled:
            return self._canceled()
        # The border to user code: any exception is the task's failure.
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if self._cancelled.is_set():
                return self._canceled()
            release_memory_limit()
            failure = self._failure_of(error)
            if not isinstance(self._task.graph.vertex(self._task.region.id), Program):
                # A program tells its own failure. That of a pipeline is told by whoever follows it.
                print(FAILURE_MARK, file=sys.stderr)
            print(failure.stack_trace, file=sys.stderr)
            return Ended(
                state=ExecutionState.FAILED,
                failure=failure,
                progress=self._run.progress,
                server_lost=is_loss_of_server(error),
            )
        if self._cancelled.is_set() and self._run.query is not None:
            # A stopped stream ends like a stream that has read everything.
            return self._canceled()
        return Ended(state=ExecutionState.FINISHED, progress=self._run.final_progress())

    def _failure_of(self, error: BaseException) -> Failure:
        killed = self._workers.failure if self._workers is not None else None
        if killed is not None:
            return self._run.at_functions(killed)
        return name_limit(self._run.failure_of(error), error, self._task.limits)

    def _canceled(self) -> Ended:
        failure = (
            lease_expired()
            if self._is_lease_expired and not self._is_cancelled_by_executor
            else None
        )
        return Ended(state=ExecutionState.CANCELED, failure=failure, progress=self._run.progress)

    def _end_leftovers(self) -> SessionNotEnded | None:
        try:
            end_all_work(self._session, self._ui, self._task.uninterruptible_after)
        except (PySparkException, grpc.RpcError, OSError) as error:
            return session_not_ended(self._session.session_id, error)
        return None

    def _close_session(self) -> str:
        """Close the session, so that no work can start in it; return the mark of its workers."""
        may_have_workers = self._policy.may_have_workers
        # Only if needed: this reads every thread of the server.
        workers = python_workers_of(self._session, self._server_pid) if may_have_workers else ""
        self._session.client.release_session()
        if self._is_lease_expired and workers:
            # This is the task executor's job, but it may be frozen.
            kill_marked(WORKER_MARK, workers)
        if self._is_lease_expired and self._closed_marker:
            Path(self._closed_marker).touch()
        return workers

    def _receive_messages(self) -> None:
        while (message := self._end.receive()) is not None:
            match message:
                case Cancel():
                    self._is_cancelled_by_executor = True
                    self._interrupt()
                case LeaseRenewed(until=until):
                    self._lease.renew(until)
                case Prepare() | RunTask() | Leave():
                    # Later messages belong to the next task.
                    self._next.put(message)
                    return
        # The task executor is dead: nothing that this task started may outlive it.
        os.killpg(0, signal.SIGKILL)

    def _interrupt(self) -> None:
        with self._ending:
            if self._over or self._cancelled.is_set():
                return
            self._cancelled.set()
            # A signal to the process may be delivered to a thread of gRPC, and would then not wake
            # a sleeping main thread. So signal the main thread itself.
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGTERM)
        with suppress(PySparkException, grpc.RpcError):
            self._session.interruptAll()

    def _on_cancel_signal(self, _signal: int, _frame: object) -> None:
        if self._cancelled.is_set() and not self._over:
            raise _Cancelled

    # The lease expires: the task executor may be frozen, so the runner ends its work itself

    def _end_like_a_cancellation(self) -> None:
        failpoint("lease.before-ending")
        self._is_lease_expired = True
        self._interrupt()

    def _end_by_force(self) -> None:
        """The main thread may hang in user code, or wait for a task executor that reads nothing."""
        if not self._is_cancelled_by_executor and self._end_leftovers() is None:
            with suppress(PySparkException, grpc.RpcError):
                self._close_session()
                os.killpg(0, signal.SIGKILL)

    def _kill_own_group(self) -> None:
        """A task executor that could act would have cancelled the task by now.

        Work that is left at the Spark server is ended by the server's watchdog.
        """
        if not self._is_cancelled_by_executor:
            os.killpg(0, signal.SIGKILL)

    def _send_state(self, state: ExecutionState) -> None:
        self._end.send(StateReport(state=state))

    def _send_running(self) -> None:
        self._send_state(ExecutionState.RUNNING)

    def _send_progress(self, progress: Progress) -> None:
        self._end.send(ProgressReport(progress=progress))


def _enter_directory(directory: Path) -> None:
    """Make the attempt's directory the working directory, and put temporary files there too."""
    temporary = directory / "tmp"
    make_private_directory(temporary)
    os.environ["TMPDIR"] = str(temporary)
    tempfile.tempdir = None
    os.chdir(directory)
