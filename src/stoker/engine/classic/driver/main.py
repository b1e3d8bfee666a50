"""The classic driver: a process with a JVM of its own that runs one task.

`python -m stoker.engine.classic.driver.main FD WARM` starts the JVM, and a Spark context if WARM
is 1, then waits for its task on the socket FD. The task is a program or a region of a pipeline. The
process ends with the exit code of the user's code, as if the user had started it.

Its supervisor (`osproc.supervisor`) is its parent and kills whatever is left. When the lease runs
out, the task executor may be frozen, so the driver asks its supervisor itself to end everything.
"""

import atexit
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stoker.core.failpoints import failpoint
from stoker.core.graph import Artifact, ArtifactKind, Program
from stoker.core.results import Failure, Progress
from stoker.core.states import ExecutionState
from stoker.engine.classic.driver.progress import current_progress
from stoker.engine.classic.driver.statements import resolve_paths_of_statements
from stoker.engine.classic.driver.warm_spark import WarmSpark
from stoker.engine.classic.environments import pack
from stoker.engine.classic.settings import Fit, fit_of
from stoker.engine.failures import failure_of, keep_errors_out_of_output
from stoker.engine.lease import LeaseStep, LeaseThreads
from stoker.engine.limits import apply_limits, name_limit, release_memory_limit
from stoker.engine.program_exit import exit_code_of, failure_of_exit
from stoker.engine.protocol import (
    Ended,
    LeaseRenewed,
    NotReady,
    ProgressReport,
    Ready,
    RunnerEnd,
    RunTask,
    StateReport,
)
from stoker.engine.python_worker.stoker_python_daemon import WORKING_DIRECTORY_VARIABLE
from stoker.engine.python_workers import WorkerMemoryWatch, WorkersOfDriver
from stoker.engine.region.catalog_guard import guard_classic_sessions
from stoker.engine.region.program import (
    enter,
    execute,
    failure_of_error,
    name_of,
    print_uncaught,
)
from stoker.engine.region.relative_paths import RelativePaths, paths_of_job
from stoker.engine.region.run import RegionExecution
from stoker.engine.reuse.session_policy import DedicatedSession
from stoker.engine.server_config import pipeline_settings
from stoker.gateways.attempt_logs import FAILURE_MARK
from stoker.osproc.process_tree import kill_tree

_POLL_SECONDS = 1.0
_START_ERRORS = (PySparkException, Py4JError, OSError, RuntimeError)


class Driver:
    def __init__(self, end: RunnerEnd, spark: WarmSpark, task: RunTask) -> None:
        self._end = end
        self._spark = spark
        self._task = task
        self._directory = Path(task.directory)
        self._progress = Progress()
        self._supervisor = os.getppid()
        self._workers: WorkerMemoryWatch | None = None
        self._lease = LeaseThreads(
            task.lease,
            {
                LeaseStep.END: self._end_by_itself,
                LeaseStep.FORCE: self._end_by_force,
                LeaseStep.KILL: self._kill_everything,
            },
        )

    def run(self) -> int:
        """Run the task and return the exit code of this process."""
        if self._lease.due is not LeaseStep.CONTINUE:
            # The task executor or the machine was frozen after the task was sent.
            return 1
        self._lease.start()
        threading.Thread(target=self._receive_renewals, name="stoker-control", daemon=True).start()
        self._report_state(ExecutionState.INITIALIZING)
        _use_temporary_files_in(self._directory / "tmp")
        for path in reversed(self._task.python_path):
            sys.path.insert(0, path)
        vertex = self._task.graph.vertex(self._task.region.id)
        try:
            if isinstance(vertex, Program):
                return self._run_program(vertex)
            return self._run_region()
        # Exceptions of user code are caught inside, so this one is due to Spark or the machine.
        except _START_ERRORS as error:
            failure = failure_of(error)
            print(failure.stack_trace, file=sys.stderr)
            self._report_failure(failure)
            return 1

    def _run_program(self, program: Program) -> int:
        configuration = self._task.graph.configuration
        files = self._link_files()
        paths = paths_of_job(self._task.graph)
        enter(paths.base, self._directory / "work", program.environment)
        if fit_of(configuration, program.environment) is not Fit.CONTEXT:
            self._spark.discard_context()
        self._apply_settings(program.environment)
        self._use_paths(paths)
        self._spark.add_files(
            [str(files[a.name]) for a in self._artifacts_of_kind(ArtifactKind.FILE, program)],
            [str(files[a.name]) for a in self._artifacts_of_kind(ArtifactKind.PYTHON, program)],
        )
        for artifact in self._artifacts_of_kind(ArtifactKind.PYTHON, program):
            path = files[artifact.name]
            sys.path.insert(0, str(path.parent if path.suffix == ".py" else path))
        keep_errors_out_of_output()
        self._spark.hand_over()
        self._start_progress_reports()
        self._report_state(ExecutionState.RUNNING)
        self._begin_limits()
        return self._execute(str(files[program.script]), program)

    def _begin_limits(self) -> None:
        if self._task.limits is not None:
            self._workers = WorkerMemoryWatch(
                WorkersOfDriver(), self._task.limits.memory_of_workers
            )
            self._workers.start()
            apply_limits(self._task.limits)

    def _apply_settings(self, environment: dict[str, str]) -> None:
        settings = {k: v for k, v in self._task.graph.configuration.items() if _is_spark(k)}
        self._spark.set_properties(settings)
        if self._spark.is_unclaimed:
            self._spark.configure(settings)
        installed = {"PYTHONPATH": os.pathsep.join(self._workers_python_path())}
        self._spark.set_workers_environment(
            {**environment, **(installed if self._task.python_path else {})}
        )

    def _workers_python_path(self) -> list[str]:
        """Search path of Python workers; other machines get the environments as archives."""
        if self._spark.is_local:
            return list(self._task.python_path)
        names = []
        for number, place in enumerate(self._task.python_path):
            names.append(f"stoker-environment-{number}")
            self._spark.add_archive(pack(Path(place)), names[-1])
        return names

    def _execute(self, script: str, program: Program) -> int:
        try:
            execute(script, program.arguments, name_of(program))
        except SystemExit as error:
            code = exit_code_of(error)
            if isinstance(error.code, str):
                print(error.code, file=sys.stderr)
            if code != 0:
                self._report_failure(failure_of_exit(code, error.code))
            return code
        # The boundary to user code: any exception is the program's failure.
        except (Exception, KeyboardInterrupt) as error:
            release_memory_limit()
            print_uncaught(error, name_of(program))
            failure = name_limit(failure_of_error(error), error, self._task.limits)
            if (killed := self._failure_of_workers()) is not None:
                failure = msgspec.structs.replace(
                    failure, error=killed.error, message=killed.message
                )
            self._report_failure(failure)
            return 1
        return 0

    def _failure_of_workers(self) -> Failure | None:
        return self._workers.failure if self._workers is not None else None

    def _run_region(self) -> int:
        if fit_of(self._task.graph.configuration, {}) is not Fit.CONTEXT:
            self._spark.set_properties(
                {k: v for k, v in self._task.graph.configuration.items() if _is_spark(k)}
            )
            self._spark.discard_context()
        os.chdir(self._directory)
        session: Any = self._spark.claim() or SparkSession.builder.getOrCreate()
        for key, value in pipeline_settings(os.cpu_count() or 1).items():
            session.conf.set(key, value)
        if not self._task.region.streaming:
            # A stream reports its own progress.
            self._start_progress_reports()
        run = RegionExecution(
            _ClassicSession(session),
            DedicatedSession(),
            _without_fixed_settings(self._task, session),
            self._send_progress,
            self._report_running,
            self._use_paths,
        )
        self._begin_limits()
        try:
            run.run()
        # The boundary to user code: any exception is the task's failure.
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            release_memory_limit()
            killed = self._failure_of_workers()
            failure = (
                run.at_functions(killed)
                if killed is not None
                else name_limit(run.failure_of(error), error, self._task.limits)
            )
            print(FAILURE_MARK, failure.stack_trace, sep="\n", file=sys.stderr)
            self._report_failure(failure)
            return 1
        # Spark's UI does not know what was published.
        progress = msgspec.structs.replace(
            self._progress,
            rows_written=run.progress.rows_written,
            bytes_written=run.progress.bytes_written,
        )
        self._end.send(Ended(state=ExecutionState.FINISHED, progress=progress))
        return 0

    def _use_paths(self, paths: RelativePaths) -> None:
        """Have Spark resolve relative paths in the caller's directory; without one, it refuses.

        Its Python workers work there too, so that functions find files by the same paths.
        """
        resolve_paths_of_statements(paths)
        if paths.base is not None:
            self._spark.work_in(str(paths.base))
            self._spark.set_workers_environment({WORKING_DIRECTORY_VARIABLE: str(paths.base)})

    def _report_running(self) -> None:
        self._report_state(ExecutionState.RUNNING)

    def _report_failure(self, failure: Failure) -> None:
        with suppress(OSError):
            self._end.send(
                Ended(state=ExecutionState.FAILED, failure=failure, progress=self._progress)
            )

    def _artifacts_of_kind(self, kind: ArtifactKind, program: Program) -> list[Artifact]:
        own = (program.script, program.requirements)
        return [a for a in self._task.graph.artifacts if a.kind is kind and a.name not in own]

    def _link_files(self) -> dict[str, Path]:
        """The job's files under the names the job uses.

        Hard links, because Spark resolves symbolic links and shows its workers the target's name.
        """
        directory = self._directory / "files"
        directory.mkdir(exist_ok=True)
        for name, source in self._task.artifacts.items():
            try:
                os.link(source, directory / name)
            except OSError:
                # On another file system, or one without hard links.
                shutil.copyfile(source, directory / name)
        return {name: directory / name for name in self._task.artifacts}

    def _report_state(self, state: ExecutionState) -> None:
        self._end.send(StateReport(state=state))

    def _send_progress(self, progress: Progress) -> None:
        if progress != self._progress:
            self._progress = progress
            with suppress(OSError):
                self._end.send(ProgressReport(progress=progress))

    def _receive_renewals(self) -> None:
        # When the connection ends there is nothing to do: the supervisor watches the task executor.
        while (message := self._end.receive()) is not None:
            if isinstance(message, LeaseRenewed):
                self._lease.renew(message.until)

    # The lease runs out: the task executor may be frozen, so the driver ends itself

    def _end_by_itself(self) -> None:
        failpoint("lease.before-ending")
        self._signal_supervisor(signal.SIGTERM)

    def _end_by_force(self) -> None:
        failpoint("lease.before-killing")
        self._signal_supervisor(signal.SIGUSR1)

    def _kill_everything(self) -> None:
        kill_tree(self._supervisor)
        os.kill(os.getpid(), signal.SIGKILL)

    def _signal_supervisor(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._supervisor, number)

    def _start_progress_reports(self) -> None:
        threading.Thread(target=self._poll_progress, name="stoker-progress", daemon=True).start()

    def _poll_progress(self) -> None:
        pause = threading.Event()
        while not pause.wait(_POLL_SECONDS):
            # The context may be stopped or not made yet, or its UI may be turned off.
            with suppress(OSError, ValueError, KeyError, AttributeError, Py4JError):
                progress = current_progress()
                if progress is not None:
                    self._send_progress(progress)


class _ClassicSession:
    """A classic session that `RegionExecution` can use like a Spark Connect session."""

    client: None = None
    """There is no connection to a server."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def registerProgressHandler(self, _handler: Any) -> None:
        """Does nothing: progress is polled from Spark's UI."""


def _without_fixed_settings(task: RunTask, session: Any) -> RunTask:
    """Remove the Spark settings that a session cannot change: the context already has them."""
    kept = {
        key: value
        for key, value in task.graph.configuration.items()
        if not _is_spark(key) or session.conf.isModifiable(key)
    }
    graph = msgspec.structs.replace(task.graph, configuration=kept)
    return msgspec.structs.replace(task, graph=graph)


def _is_spark(key: str) -> bool:
    return key.startswith("spark.")


def _use_temporary_files_in(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = str(directory)
    tempfile.tempdir = None


def _stop_everything(spark: WarmSpark) -> None:
    # The JVM may be gone already.
    with suppress(Exception):
        spark.stop_everything()


def main() -> int:
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    end = RunnerEnd(connection)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    guard_classic_sessions()
    try:
        spark = WarmSpark()
        # Runs last of all exit handlers, because those of user code may still use Spark.
        atexit.register(_stop_everything, spark)
        if sys.argv[2] == "1":
            spark.make_context()
    except _START_ERRORS as error:
        end.send(NotReady(reason=f"{type(error).__name__}: {error}"))
        return 1
    for variable in ("PYSPARK_SUBMIT_ARGS", "_PYSPARK_DRIVER_CONN_INFO_PATH"):
        os.environ.pop(variable, None)
    end.send(Ready(spark_version=spark.version))
    task = end.receive()
    if not isinstance(task, RunTask):
        return 0
    try:
        return Driver(end, spark, task).run()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
