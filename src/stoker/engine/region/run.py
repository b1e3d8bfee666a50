"""One attempt of one region in Spark: what happens to a task, in order.

1. If an earlier attempt has already written the result, finish its publication and stop. Nothing
   may be computed twice once it is decided that an output counts.
2. Choose the session: shared with other tasks or dedicated. Before that, none of the task's
   settings, files or code may reach Spark.
3. Place the job's files, then load all of its functions, so that nothing runs when one is broken.
4. Build the DataFrame of the region's end from its inputs (`RegionCompiler`).
5. Act once: write the sink, materialize the vertex, run the script or program, or start the
   streaming query and follow it to its end.

A runner that takes over the running stream of a dead runner does only the last half of step 5.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never

import msgspec
from pyspark.errors import AnalysisException

from stoker.core.graph import (
    ArtifactKind,
    FormatWrite,
    Program,
    PythonFunction,
    Sink,
    Source,
    SqlScript,
    Transform,
    caller_of,
    function_of,
)
from stoker.core.job_options import SHUFFLE_PARTITIONS, shuffle_partitions
from stoker.core.manifests import Manifest
from stoker.core.results import Failure, Progress
from stoker.core.spark_paths import with_absolute_paths
from stoker.engine.failures import CannotRun, failure_of, keep_errors_out_of_output
from stoker.engine.output.publish import Publisher, publisher_for
from stoker.engine.protocol import RunTask
from stoker.engine.python_worker.stoker_python_daemon import DIRECTORY, WORKING_DIRECTORY
from stoker.engine.region.call_sites import record_call_sites
from stoker.engine.region.compile import (
    DataFrame,
    RegionCompiler,
    Session,
    explain_mismatch,
    run_sql,
)
from stoker.engine.region.environment import check_versions, place_artifacts
from stoker.engine.region.locations import (
    checkpoint_directory,
    choose_file_manager,
    make_private,
)
from stoker.engine.region.materialize import MaterializedResults
from stoker.engine.region.places import RunningStatement, failure_in
from stoker.engine.region.plan_paths import resolve_paths_in_worker
from stoker.engine.region.program import name_of, run_on_connect
from stoker.engine.region.query_results import QueryResults
from stoker.engine.region.relative_paths import RelativePaths, paths_of_job
from stoker.engine.reuse.session_policy import SessionPolicy
from stoker.engine.runner.pyspark_client import single_call
from stoker.engine.runner.worker_output import WorkerOutput
from stoker.engine.streams.boundary import StartQuery, StreamRun, guard_function
from stoker.engine.streams.control import StreamControl
from stoker.engine.streams.saved_state import explain_other_schema, keep_state_plan
from stoker.engine.streams.sink_position import (
    check_remote_position,
    check_sink_position,
    explain_no_file_system,
    note_writer,
)
from stoker.engine.streams.watch import find_stream
from stoker.pipeline.sql import returns_rows

Report = Callable[[Progress], None]


class RegionExecution:
    def __init__(
        self,
        session: Session,
        policy: SessionPolicy,
        task: RunTask,
        report: Report,
        report_running: Callable[[], None],
        use_paths: Callable[[RelativePaths], None],
    ) -> None:
        """`use_paths` has Spark read the relative paths of the job's code in this way."""
        self._session = session
        self._policy = policy
        self._task = task
        self._report = report
        self._report_running = report_running
        self._use_paths = use_paths
        self._counts: dict[str, tuple[int, int, int]] = {}
        """Tasks, finished tasks and bytes read of each stage of each Spark operation."""
        self.progress = Progress()
        self.query: Any = None
        """The streaming query, once it has started."""
        self._control = StreamControl(Path(task.directory))
        self._results = MaterializedResults(task.materialized_root)
        self._query_results = QueryResults(task.rows_root, task.limits)
        self._publisher: Publisher | None = None
        """Set for a batch sink that writes files."""
        self._compiler: RegionCompiler | None = None
        """None until the functions are about to be loaded."""
        self._statement: RunningStatement | None = None
        """The statement of a script that runs now."""
        self._paths: RelativePaths | None = None
        self._worker_output = WorkerOutput(Path(task.directory))

    def run(self) -> None:
        keep_errors_out_of_output()
        self._paths = paths = paths_of_job(self._task.graph)
        self._use_paths(paths)
        graph = with_absolute_paths(self._task.graph, paths.absolute)
        self._task = task = msgspec.structs.replace(self._task, graph=graph)
        if task.resumed is not None:
            self._worker_output.start()
            self._follow(find_stream(self._session, task.resumed), task.resumed)
            return
        if self._finish_earlier_attempt():
            return
        self._policy.select(task, self._apply_settings)
        place_artifacts(self._session, task.graph.artifacts, task.artifacts, Path(task.directory))
        if (place := self._place_of_functions()) is not None:
            os.chdir(place)
        compiler = RegionCompiler(self._session, task.graph, task.region, self._results)
        self._compiler = compiler
        if any(map(function_of, map(task.graph.vertex, task.region.vertices))):
            check_versions(task.graph.environment)
            compiler.load_functions()
            if self._is_on_connect:
                record_call_sites()
        end = task.graph.vertex(task.region.id)
        match end:
            case SqlScript():
                self._begin_batch()
                self._run_script(end)
            case Program():
                self._begin_batch()
                run_on_connect(end, task, paths)
            case Source() | Transform():
                self._materialize(end.name, compiler)
            case Sink():
                frame = compiler.frame(end.input)
                if task.region.streaming:
                    self._run_stream(end, frame, compiler)
                else:
                    self._write_batch(end, frame, compiler)
            case _:
                assert_never(end)

    def _place_of_functions(self) -> Path | None:
        """The directory of the caller, in which functions find files as their author does.

        None if it is not here, or if a pipeline brings its own files: those are in the directory
        of the attempt, and on workers in that of the session.
        """
        graph = self._task.graph
        is_program = isinstance(graph.vertex(self._task.region.id), Program)
        if not is_program and any(a.kind is ArtifactKind.FILE for a in graph.artifacts):
            return None
        base = self._paths.base if self._paths is not None else None
        return base if base is not None and os.access(base, os.X_OK) else None

    @property
    def leaves_process_clean(self) -> bool:
        """Whether the process may run another task after the success of this one."""
        return self._policy.leaves_process_clean

    def empty_session(self) -> bool:
        """Empty the session after success; return whether the next task may use it.

        Called only if the task leaves the process clean.
        """
        views = self._compiler.views if self._compiler is not None else ()
        has_settings = bool(_session_settings(self._task))
        return self._policy.empty_session(self._session, views, has_settings=has_settings)

    def finish_output(self) -> None:
        """Return when what functions have printed on Spark's workers is in the task's output."""
        self._worker_output.close()

    def final_progress(self) -> Progress:
        """The progress of a successful task: all done, even if Spark's last report said less."""
        return msgspec.structs.replace(self.progress, tasks_done=self.progress.tasks_total)

    def failure_of(self, error: BaseException) -> Failure:
        """The failure that describes this exception, with its place in the job."""
        end = self._task.graph.vertex(self._task.region.id)
        if (explained := explain_other_schema(end.name, error)) is not None:
            explained.__cause__ = error
            error = explained
        if self._paths is not None and (hint := self._paths.hint(str(error))) is not None:
            error.add_note(hint)
        if self._statement is not None:
            return self._statement.failure_of(error)
        return failure_of(error) if self._compiler is None else failure_in(self._compiler, error)

    def at_functions(self, failure: Failure) -> Failure:
        """The failure of workers, with the functions that may have run in them as its place."""
        end = self._task.graph.vertex(self._task.region.id)
        if isinstance(end, Program):
            return msgspec.structs.replace(failure, place=name_of(end))
        places = self._compiler.places_of_functions() if self._compiler is not None else []
        return msgspec.structs.replace(failure, place="; ".join(places))

    # Before anything runs

    def _finish_earlier_attempt(self) -> bool:
        """Finish what an earlier attempt has decided; return whether there is such a result."""
        if self._task.region.streaming:
            return False
        end = self._task.graph.vertex(self._task.region.id)
        written: Manifest | None = None
        match end:
            case Sink():
                self._publisher = publisher_for(self._task, end)
                written = self._publisher.finish_earlier_attempt() if self._publisher else None
            case Source() | Transform():
                written = self._results.reuse(end.name)
        if written is not None:
            self._report_running()
            self._add_written(written)
        return written is not None

    def _apply_settings(self) -> None:
        if self._policy.may_have_workers and self._is_on_connect:
            self._worker_output.start()
            self._session.conf.set(DIRECTORY, self._task.directory)
            self._session.conf.set(WORKING_DIRECTORY, str(self._place_of_functions() or ""))
        for key, value in _session_settings(self._task).items():
            try:
                self._session.conf.set(key, value)
            except AnalysisException as error:
                if error.getCondition() not in (
                    "CANNOT_MODIFY_CONFIG",
                    "CANNOT_MODIFY_STATIC_CONFIG",
                ):
                    raise
                raise CannotRun(
                    "StaticConfiguration",
                    f"the job sets {key}, which Spark fixes when its engine starts and a job "
                    "cannot change; remove it from the job's configuration, or set it for the "
                    "task executors in taskmanager.spark.properties",
                ) from error

    @property
    def _is_on_connect(self) -> bool:
        """Whether Spark is a shared server, and not the JVM of this process, a driver."""
        return self._session.client is not None

    # Batch

    def _begin_batch(self) -> None:
        self._session.registerProgressHandler(self._on_progress)
        self._report_running()

    def _on_progress(
        self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        for stage in stages or ():
            self._counts[f"{operation_id}/{stage.stage_id}"] = (
                stage.num_tasks,
                stage.num_completed_tasks,
                stage.num_bytes_read,
            )
        counts = self._counts.values()
        changed = Progress(
            tasks_total=sum(total for total, _, _ in counts),
            tasks_done=sum(finished for _, finished, _ in counts),
            bytes_read=sum(size for _, _, size in counts),
        )
        if changed != self.progress:
            self._set_progress(changed)

    def _set_progress(self, progress: Progress) -> None:
        self.progress = progress
        self._report(progress)

    def _add_written(self, written: Manifest) -> None:
        self.progress = msgspec.structs.replace(
            self.progress, rows_written=written.rows, bytes_written=written.size
        )

    def _run_script(self, script: SqlScript) -> None:
        for number, statement in enumerate(script.statements, start=1):
            self._statement = RunningStatement(script, number)
            found = run_sql(self._session, statement, self._task.graph.parameters)
            if returns_rows(statement):
                self._query_results.keep(statement, found)
        self._statement = None

    def _materialize(self, name: str, compiler: RegionCompiler) -> None:
        if self._task.region.streaming:
            raise CannotRun(
                "StreamingMaterialized",
                f"{name} is marked as materialized, but a stream never ends and cannot be; "
                "remove the mark, or read the source without streaming=True",
            )
        frame = compiler.frame(name)
        self._policy.before_action(frame)
        self._begin_batch()

        def write(directory: str) -> None:
            with single_call(self._session.client):
                frame.write.parquet(directory)

        with explain_mismatch(frame, name, streaming=False):
            self._add_written(self._results.write(name, self._task.attempt, write))

    def _write_batch(self, sink: Sink, frame: DataFrame, compiler: RegionCompiler) -> None:
        self._policy.before_action(frame)
        self._begin_batch()
        with explain_mismatch(frame, sink.name, streaming=False):
            match sink.write:
                case PythonFunction():
                    compiler.at = sink.name
                    compiler.function(sink.name)(frame)
                case FormatWrite(format="console"):
                    frame.show()
                case FormatWrite() as write if self._publisher is not None:
                    self._publish(self._publisher, write, frame)
                case FormatWrite() as write:
                    with single_call(self._session.client):
                        _write(sink, write, frame)

    def _publish(self, publisher: Publisher, write: FormatWrite, frame: DataFrame) -> None:
        options = {key: value for key, value in write.options.items() if key != "path"}

        def stage(directory: str) -> None:
            writer = frame.write.mode("error").options(**options)
            if write.partition_by:
                writer = writer.partitionBy(*write.partition_by)
            with single_call(self._session.client):
                writer.format(write.format).save(directory)

        manifest = publisher.publish(stage, by_partition=self._replaces_by_partition(write))
        if manifest is not None:
            self._add_written(manifest)

    def _replaces_by_partition(self, write: FormatWrite) -> bool:
        """Spark's partitionOverwriteMode; an option of the sink wins over the setting."""
        if not write.partition_by:
            return False
        options = {key.lower(): value for key, value in write.options.items()}
        mode = options.get("partitionoverwritemode") or self._session.conf.get(
            "spark.sql.sources.partitionOverwriteMode", "static"
        )
        return str(mode).lower() == "dynamic"

    # Streams

    def _run_stream(self, sink: Sink, frame: DataFrame, compiler: RegionCompiler) -> None:
        checkpoint = checkpoint_directory(self._task.checkpoint_root, sink.name)
        make_private(checkpoint)
        check_sink_position(sink, checkpoint)
        with (
            explain_no_file_system(checkpoint),
            explain_mismatch(frame, sink.name, streaming=True),
        ):
            is_restored = self._task.graph.restore is not None
            if is_restored:
                check_remote_position(self._session, sink, checkpoint)
            keep_state_plan(sink.name, frame, checkpoint, is_restored=is_restored)
            choose_file_manager(self._session, checkpoint)
            writer = frame.writeStream.queryName(sink.name).option(
                "checkpointLocation", checkpoint.url
            )
            if sink.mode is not None:
                writer = writer.outputMode(sink.mode)
            writer = _with_trigger(writer, sink.trigger)
            note_writer(sink, self._task.graph.job_id)
            query = self._start(sink, writer, compiler)
        self._report_running()
        self._follow(query, start=lambda: self._start(sink, writer, compiler))

    def _start(self, sink: Sink, writer: Any, compiler: RegionCompiler) -> Any:
        match sink.write:
            case PythonFunction():
                function = compiler.function(sink.name)
                directory: Path | None = None
                if self._is_on_connect:
                    function = resolve_paths_in_worker(
                        function, caller_of(self._task.graph), self._place_of_functions()
                    )
                    directory = Path(self._task.directory)
                function = guard_function(function, self._control.order_file, directory)
                return writer.foreachBatch(function).start()
            case FormatWrite() as write:
                writer = writer.options(**write.options)
                if write.partition_by:
                    writer = writer.partitionBy(*write.partition_by)
                if write.table is not None:
                    return writer.toTable(write.table)
                writer = writer.format(write.format)
                return writer.start(write.path) if write.path is not None else writer.start()

    def _follow(
        self, query: Any, known: Progress | None = None, start: StartQuery | None = None
    ) -> None:
        """Watch the query to its end.

        `known` is the progress of a query that is taken over from a dead runner.
        """
        self.query = query
        end = self._task.graph.vertex(self._task.region.id)
        is_guarded = isinstance(end, Sink) and isinstance(end.write, PythonFunction)
        stream = StreamRun(self._control, self._set_progress, start, is_guarded=is_guarded)
        with single_call(self._session.client):
            stream.follow(query, known)


def _session_settings(task: RunTask) -> dict[str, str]:
    """Spark settings that the task makes in its session."""
    configuration = task.graph.configuration
    settings = {key: value for key, value in configuration.items() if key.startswith("spark.")}
    partitions = shuffle_partitions(configuration, task.region.vertices)
    if partitions is not None:
        settings[SHUFFLE_PARTITIONS] = str(partitions)
    return settings


def _write(sink: Sink, write: FormatWrite, frame: DataFrame) -> None:
    # Spark's noop format does not accept errorifexists.
    mode = sink.mode or ("append" if write.format == "noop" else "errorifexists")
    # Over Spark Connect, PySpark knows this mode only by its short name.
    mode = "error" if mode == "errorifexists" else mode
    writer = frame.write.mode(mode).options(**write.options)
    if write.partition_by:
        writer = writer.partitionBy(*write.partition_by)
    if write.table is not None:
        writer.format(write.format).saveAsTable(write.table)
    elif write.path is not None:
        writer.format(write.format).save(write.path)
    else:
        writer.format(write.format).save()


def _with_trigger(writer: Any, trigger: str | None) -> Any:
    match trigger:
        case None:
            return writer
        case "available-now":
            return writer.trigger(availableNow=True)
        case "once":
            return writer.trigger(once=True)
        case interval:
            return writer.trigger(processingTime=interval)
