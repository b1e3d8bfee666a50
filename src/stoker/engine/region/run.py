"""Running a compiled region: writing a result, materializing a vertex, or a streaming query."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never

import grpc
import msgspec
from pyspark.errors import AnalysisException, PySparkException

from stoker.core.graph import (
    FormatWrite,
    Program,
    PythonFunction,
    Sink,
    Source,
    SqlScript,
    Transform,
    Vertex,
)
from stoker.core.job_options import SHUFFLE_PARTITIONS, shuffle_partitions
from stoker.core.manifests import Manifest
from stoker.core.results import Progress
from stoker.engine.failures import CannotRun, shortened
from stoker.engine.output.publish import Publisher, publisher_for
from stoker.engine.protocol import RunTask
from stoker.engine.region.compile import DataFrame, Mismatch, RegionCompiler, Session, run_sql
from stoker.engine.region.environment import check_versions, place_artifacts
from stoker.engine.region.locations import checkpoint_place
from stoker.engine.region.materialize import MaterializedResults
from stoker.engine.region.program import run_on_connect
from stoker.engine.reuse.functions import only_describes_a_query
from stoker.engine.reuse.isolation import Isolation, changes_session, isolation_of
from stoker.engine.reuse.session_policy import SessionPolicy
from stoker.engine.runner.one_call import single_call
from stoker.engine.streams.boundary import StartQuery, StreamRun, guarded
from stoker.engine.streams.checkpoint_files import choose_file_manager
from stoker.engine.streams.control import StreamControl
from stoker.engine.streams.saved_state import check_state_keys, keep_state_plan
from stoker.engine.streams.sink_position import (
    check_remote_position,
    check_sink_position,
    within_reach,
)
from stoker.engine.streams.watch import find_stream

Report = Callable[[Progress], None]

_SHOWN_STATEMENT = 500


class RegionExecution:
    """One attempt of one region, in the session of its runner."""

    def __init__(
        self,
        session: Session,
        ground: SessionPolicy,
        task: RunTask,
        report: Report,
        entered_running: Callable[[], None],
    ) -> None:
        self._session = session
        self._ground = ground
        self._task = task
        self._report = report
        self._entered_running = entered_running
        self._counts: dict[str, tuple[int, int, int]] = {}
        """Of each Spark operation: tasks, tasks done, bytes read."""
        self.progress = Progress()
        self.query: Any = None
        """The streaming query, once it has started."""
        self._control = StreamControl(Path(task.directory))
        self._results = MaterializedResults(task.materialized_root)
        self._publisher: Publisher | None = None
        """Of a batch sink whose output is files."""
        self._compiler: RegionCompiler | None = None

    def run(self) -> None:
        task = self._task
        if task.resumed is not None:
            self._watch(find_stream(self._session, task.resumed), task.resumed)
            return
        if self._is_written_already():
            return
        self._ground.choose(isolation_of(task), self._apply_configuration)
        place_artifacts(self._session, task.graph.artifacts, task.artifacts, Path(task.directory))
        compiler = RegionCompiler(self._session, task.graph, task.region, self._results)
        self._compiler = compiler
        if any(_has_function(task.graph.vertex(name)) for name in task.region.vertices):
            check_versions(task.graph.environment)
            compiler.load_functions()
        end = task.graph.vertex(task.region.id)
        match end:
            case SqlScript():
                self._begin_batch()
                self._run_script(end)
            case Program():
                self._begin_batch()
                run_on_connect(end, task)
            case Source() | Transform():
                self._materialize(end.name, compiler)
            case Sink():
                frame = compiler.frame(end.input)
                if task.region.streaming:
                    self._run_stream(end, frame, compiler)
                else:
                    self._run_batch(end, frame, compiler)
            case _:
                assert_never(end)

    @property
    def left_nothing(self) -> bool:
        """After success: no code has run here that could have left anything in this process."""
        return (
            self._compiler is not None
            and isolation_of(self._task) is not Isolation.OWN
            and not self._ground.may_have_workers
            and all(map(only_describes_a_query, self._compiler.functions))
        )

    def give_session_back(self) -> bool:
        """Beside `left_nothing`: whether no setting, view or table of the task is left in it."""
        vertices = map(self._task.graph.vertex, self._task.region.vertices)
        if self._settings or self._ground.has_named_tables or any(map(changes_session, vertices)):
            return False
        self._session.clearProgressHandlers()
        try:
            for view in self._compiler.views if self._compiler is not None else ():
                self._session.catalog.dropTempView(view)
        except (PySparkException, grpc.RpcError):
            return False
        return True

    def _is_written_already(self) -> bool:
        """An earlier attempt came so far that nothing has to be computed again."""
        end = self._task.graph.vertex(self._task.region.id)
        written: Manifest | None = None
        if not self._task.region.streaming:
            match end:
                case Sink():
                    self._publisher = publisher_for(self._task, end)
                    written = self._publisher.finish_earlier() if self._publisher else None
                case Source() | Transform():
                    written = self._results.reuse(end.name)
        if written is not None:
            self._entered_running()
            self._note(written)
        return written is not None

    def _note(self, written: Manifest) -> None:
        self.progress = msgspec.structs.replace(
            self.progress, rows_written=written.rows, bytes_written=written.size
        )

    def final_progress(self) -> Progress:
        """After success: Spark does not always tell of the last tasks before it is done."""
        return msgspec.structs.replace(self.progress, tasks_done=self.progress.tasks_total)

    @property
    def _settings(self) -> dict[str, str]:
        """That the task makes in its session."""
        configuration = self._task.graph.configuration
        settings = {key: value for key, value in configuration.items() if key.startswith("spark.")}
        partitions = shuffle_partitions(configuration, self._task.region.vertices)
        if partitions is not None:
            settings[SHUFFLE_PARTITIONS] = str(partitions)
        return settings

    def _apply_configuration(self) -> None:
        for key, value in self._settings.items():
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

    def _begin_batch(self) -> None:
        self._session.registerProgressHandler(self._on_progress)
        self._entered_running()

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
            self.progress = changed
            self._report(changed)

    def _run_script(self, script: SqlScript) -> None:
        for number, statement in enumerate(script.statements, start=1):
            try:
                run_sql(self._session, statement, self._task.graph.parameters)
            except Exception as error:
                text = shortened(statement.strip())[:_SHOWN_STATEMENT]
                error.add_note(
                    f"statement {number} of {len(script.statements)} in {script.name}: {text}"
                )
                raise

    def _materialize(self, name: str, compiler: RegionCompiler) -> None:
        if self._task.region.streaming:
            raise CannotRun(
                "StreamingMaterialized",
                f"{name} is marked as materialized, but a stream never ends and cannot be; "
                "remove the mark, or read the source without streaming=True",
            )
        frame = compiler.frame(name)
        self._ground.settle(frame)
        self._begin_batch()

        def write(directory: str) -> None:
            with self._ground.writing():
                frame.write.parquet(directory)

        with Mismatch(frame, name, streaming=False):
            self._note(self._results.write(name, self._task.attempt, write))

    def _run_batch(self, sink: Sink, frame: DataFrame, compiler: RegionCompiler) -> None:
        self._ground.settle(frame)
        self._begin_batch()
        with Mismatch(frame, sink.name, streaming=False):
            match sink.write:
                case PythonFunction():
                    compiler.function(sink.name)(frame)
                case FormatWrite(format="console"):
                    frame.show()
                case FormatWrite() as write if self._publisher is not None:
                    self._publish(self._publisher, write, frame)
                case FormatWrite() as write:
                    with self._ground.writing():
                        _write(sink, write, frame)

    def _publish(self, publisher: Publisher, write: FormatWrite, frame: DataFrame) -> None:
        options = {key: value for key, value in write.options.items() if key != "path"}

        def stage(directory: str) -> None:
            writer = frame.write.mode("error").options(**options)
            if write.partition_by:
                writer = writer.partitionBy(*write.partition_by)
            with self._ground.writing():
                writer.format(write.format).save(directory)

        manifest = publisher.publish(stage, by_partition=self._replaces_by_partition(write))
        if manifest is not None:
            self._note(manifest)

    def _replaces_by_partition(self, write: FormatWrite) -> bool:
        """Spark's setting of that name, which an option of the sink overrides."""
        if not write.partition_by:
            return False
        options = {key.lower(): value for key, value in write.options.items()}
        mode = options.get("partitionoverwritemode") or self._session.conf.get(
            "spark.sql.sources.partitionOverwriteMode", "static"
        )
        return str(mode).lower() == "dynamic"

    def _run_stream(self, sink: Sink, frame: DataFrame, compiler: RegionCompiler) -> None:
        checkpoint = checkpoint_place(self._task.checkpoint_root, sink.name)
        check_sink_position(sink, checkpoint)
        with within_reach(checkpoint), Mismatch(frame, sink.name, streaming=True):
            restored = self._task.graph.restore is not None
            if restored:
                check_remote_position(self._session, sink, checkpoint)
                check_state_keys(sink.name, frame, checkpoint)
            keep_state_plan(sink.name, frame, checkpoint, restored=restored)
            choose_file_manager(self._session, checkpoint)
            writer = frame.writeStream.queryName(sink.name).option(
                "checkpointLocation", checkpoint.url
            )
            if sink.mode is not None:
                writer = writer.outputMode(sink.mode)
            writer = _triggered(writer, sink.trigger)
            query = self._start(sink, writer, compiler)
        self._entered_running()
        self._watch(query, start=lambda: self._start(sink, writer, compiler))

    def _watch(
        self, query: Any, known: Progress | None = None, start: StartQuery | None = None
    ) -> None:
        self.query = query
        end = self._task.graph.vertex(self._task.region.id)
        is_guarded = isinstance(end, Sink) and isinstance(end.write, PythonFunction)
        stream = StreamRun(self._control, self._progressed, start, is_guarded=is_guarded)
        with single_call(self._session.client):
            stream.follow(query, known)

    def _progressed(self, progress: Progress) -> None:
        self.progress = progress
        self._report(progress)

    def _start(self, sink: Sink, writer: Any, compiler: RegionCompiler) -> Any:
        match sink.write:
            case PythonFunction():
                function = guarded(compiler.function(sink.name), self._control.order_file)
                return writer.foreachBatch(function).start()
            case FormatWrite() as write:
                writer = writer.options(**write.options)
                if write.partition_by:
                    writer = writer.partitionBy(*write.partition_by)
                if write.table is not None:
                    return writer.toTable(write.table)
                writer = writer.format(write.format)
                return writer.start(write.path) if write.path is not None else writer.start()


def _write(sink: Sink, write: FormatWrite, frame: DataFrame) -> None:
    # Spark's noop has no meaning for "must not exist yet" and refuses that mode.
    mode = sink.mode or ("append" if write.format == "noop" else "errorifexists")
    # Over Spark Connect, PySpark knows this mode by its short name only.
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


def _triggered(writer: Any, trigger: str | None) -> Any:
    match trigger:
        case None:
            return writer
        case "available-now":
            return writer.trigger(availableNow=True)
        case "once":
            return writer.trigger(once=True)
        case interval:
            return writer.trigger(processingTime=interval)


def _has_function(vertex: Vertex) -> bool:
    match vertex:
        case (
            Source(read=PythonFunction())
            | Transform(compute=PythonFunction())
            | Sink(write=PythonFunction())
        ):
            return True
        case _:
            return False
