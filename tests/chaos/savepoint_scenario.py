"""Runs a random sequence of steps with one streaming job and the jobs restored from it."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from chaos.job_output import JobOutput
from chaos.numbered_lines import PARTITIONS, NumberedLines, job_over
from chaos.process_killer import ProcessKiller
from chaos.real_cluster import RealCluster, wait_through_outages
from chaos.step_sequences import Action, Step, StepSequence
from stoker.client.calls import ReplacementSettings
from stoker.core.errors import StokerError
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import Ids, JobId
from stoker.core.replacements import ReplacementPhase
from stoker.core.states import ExecutionState, JobStatus
from stoker.savepoints.manifest import decode_manifest

T = TypeVar("T")
TIMEOUT_SECONDS = 240.0
WINDOW_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """A savepoint, and the output of the job at that time."""

    path: str
    batches: Mapping[str, int]
    partitions: int
    output: JobOutput


class SavepointScenario:
    def __init__(self, cluster: RealCluster, sequence: StepSequence, root: Path) -> None:
        self._cluster = cluster
        self._sequence = sequence
        self._root = root
        self._lines = NumberedLines(root / "in")
        self._ids = Ids()
        self._killer = ProcessKiller(cluster)
        self._partitions = sequence.partitions
        self._output = JobOutput.starting_in(root / "out-0")
        self._saved: list[SavedState] = []
        self._job = JobId("")
        self._disturbed = False
        """Whether a process was killed since the job was last seen to make progress."""
        self._began = time.monotonic()

    def run(self) -> None:
        self._begin(None)
        actions = {
            Action.FEED: lambda _step: None,
            Action.KILL: self._kill,
            Action.SAVEPOINT: self._take,
            Action.STOP: self._stop,
            Action.GO_BACK: self._go_back,
            Action.RESTART: self._restart,
            Action.UPGRADE: self._replace,
            Action.RESCALE: self._replace,
        }
        for step in self._sequence.steps:
            if step.settled:
                self._settle()
            if step.files:
                self._lines.feed(step.files)
            actions[step.action](step)
            self._log_step(f"{step.action} is over")
            self._nothing_is_repeated()
        self._settle()
        self._drain()

    # Actions.

    def _kill(self, step: Step) -> None:
        assert step.death is not None
        self._running_job()
        self._disturbed = True
        self._killer.kill(step.death.victim)

    def _take(self, step: Step) -> None:
        job = self._running_job()
        directory = str(self._root / "saved")
        path = self._operate(step, lambda: self._cluster.client.savepoint(job, directory))
        if path is not None:
            self._remember(path)

    def _stop(self, step: Step) -> None:
        job = self._running_job()
        directory = str(self._root / "saved")
        path = self._operate(step, lambda: self._cluster.client.stop(job, directory))
        if path is None and not self._was_stopped():
            return
        assert self._cluster.client.wait(job) is JobStatus.FINISHED
        stopped = self._cluster.client.job(job).checkpoints.latest_savepoint
        assert stopped is not None
        assert stopped.path is not None
        assert path in (None, stopped.path)
        self._remember(stopped.path)
        self._begin(stopped.path)

    def _go_back(self, step: Step) -> None:
        if not self._saved:
            return
        self._cancel(step)
        index = step.number % len(self._saved)
        saved = self._saved[index]
        # Savepoints that were taken later belong to the output that is discarded.
        self._saved = self._saved[: index + 1]
        directory = self._root / f"out-{time.monotonic_ns()}"
        self._output = saved.output.rolled_back(saved.batches, directory)
        self._partitions = saved.partitions
        self._log_step(f"back at {saved.path}")
        self._begin(saved.path)

    def _restart(self, step: Step) -> None:
        job = self._running_job()
        self._cancel(step)
        retained = self._cluster.client.job(job).checkpoints.retained
        assert retained is not None, f"cancelled job {job} has no retained checkpoint"
        assert retained.path is not None
        self._begin(retained.path)

    def _cancel(self, step: Step) -> None:
        job, client = self._running_job(), self._cluster.client
        self._operate(step, lambda: client.cancel(job))
        wait_through_outages(
            lambda: client.status(job).globally_terminal, f"{job} has ended", TIMEOUT_SECONDS
        )
        assert client.status(job) is JobStatus.CANCELED

    def _replace(self, step: Step) -> None:
        job, client = self._running_job(), self._cluster.client
        settings = ReplacementSettings(
            directory=str(self._root / "saved"), window_seconds=WINDOW_SECONDS
        )

        def begin() -> str:
            if step.action is Action.RESCALE:
                return client.begin_rescale(job, step.number + 1, settings=settings)
            return client.begin_upgrade(job, self._graph(), settings=settings)

        def replace() -> JobId:
            state = client.replacement(job, begin())
            self._log_step(f"{state.phase} {state.reason}")
            undisturbed = step.death is None and not self._disturbed
            # State cannot be repartitioned while a batch is in the sink but not in the checkpoint.
            excused = "may be written already" in state.reason
            assert not undisturbed or excused or state.phase is ReplacementPhase.DONE, state
            return state.job_id

        following = self._operate(step, replace)
        if following is None:
            return
        self._job = following
        self._partitions = int(client.job(following).configuration[PARTITIONS])

    # Steps that the actions share.

    def _operate(self, step: Step, operation: Callable[[], T]) -> T | None:
        """The result of the operation; None if it failed, which only a killed process may cause."""
        undisturbed = step.death is None and not self._disturbed
        self._disturbed = self._disturbed or step.death is not None
        try:
            with self._killer.killing(step.death):
                return operation()
        except StokerError as error:
            self._log_step(f"{step.action} failed: {error}")
            if undisturbed:
                raise AssertionError(
                    f"{step.action} failed although no process was killed"
                ) from error
            return None

    def _begin(self, origin: str | None) -> None:
        graph = self._graph()
        if origin is not None:
            graph = msgspec.structs.replace(graph, restore=Restore(path=origin))
        self._job = self._cluster.client.submit(graph).job_id
        self._log_step(f"job {self._job} from {origin}")

    def _graph(self) -> JobGraph:
        return job_over(
            self._lines,
            self._sequence.queries,
            self._output.directory,
            job_id=self._ids.job(),
            partitions=self._partitions,
        )

    def _remember(self, path: str) -> None:
        manifest = decode_manifest((Path(path) / "manifest.json").read_bytes(), path)
        self._saved.append(
            SavedState(
                path=path,
                batches=manifest.batches,
                partitions=self._partitions,
                output=self._output,
            )
        )

    def _running_job(self) -> JobId:
        """Wait until the master shows the job as running; it may not have noticed a death yet."""
        client = self._cluster.client

        def runs() -> bool:
            job = client.job(self._job)
            assert not job.status.globally_terminal, f"the job ended: {job}"
            states = [region.current.state for region in job.regions]
            return bool(states) and all(state is ExecutionState.RUNNING for state in states)

        wait_through_outages(runs, f"job {self._job} runs", TIMEOUT_SECONDS)
        return self._job

    def _was_stopped(self) -> bool:
        """Whether a stop without an answer was completed; if not, the job must keep running."""
        self._lines.feed(1)
        before, client = self._committed(), self._cluster.client
        wait_through_outages(
            lambda: client.status(self._job).globally_terminal or self._has_advanced(before),
            "the job makes progress or has ended",
            TIMEOUT_SECONDS,
        )
        return client.status(self._job).globally_terminal

    def _settle(self) -> None:
        """Wait until the job makes progress, although restarted processes may still be starting."""
        self._cluster.restart_dead_processes()
        self._running_job()
        self._lines.feed(1)
        before = self._committed()
        wait_through_outages(
            lambda: self._has_advanced(before), "every query commits a batch", TIMEOUT_SECONDS
        )
        self._running_job()
        self._disturbed = False

    def _has_advanced(self, before: Mapping[str, int]) -> bool:
        now = self._committed()
        return all(now[query] > before[query] for query in self._sequence.queries)

    def _committed(self) -> dict[str, int]:
        checkpoints = self._cluster.directory / "storage" / "jobs" / self._job / "checkpoints"
        return {
            query: max(
                (int(path.name) for path in (checkpoints / query / "commits").glob("[0-9]*")),
                default=-1,
            )
            for query in self._sequence.queries
        }

    # Invariants.

    def _nothing_is_repeated(self) -> None:
        for query in self._sequence.queries:
            surplus = self._output.rows(query) - self._lines.expected(query)
            if query == "windows":
                # Counts are final only at the end, but each window must never appear twice.
                keys = Counter(key for key, _rows in self._output.rows(query).elements())
                assert max(keys.values(), default=1) == 1, f"repeated in {query}: {keys}"
            else:
                assert not surplus, f"repeated in {query}: {surplus}"

    def _drain(self) -> None:
        self._lines.close_windows()

        def missing() -> dict[str, Counter[tuple[int, int]]]:
            missing_rows = {
                query: self._lines.expected(query) - self._output.rows(query)
                for query in self._sequence.queries
            }
            return {query: rows for query, rows in missing_rows.items() if rows}

        try:
            wait_through_outages(
                lambda: not missing(), "all input is in the sinks", TIMEOUT_SECONDS
            )
        except AssertionError:
            raise AssertionError(f"lost: {missing()}") from None
        for query in self._sequence.queries:
            surplus = self._output.rows(query) - self._lines.expected(query)
            assert not surplus, f"repeated in {query}: {surplus}"
        live = [j.jid for j in self._cluster.client.jobs() if not j.state.globally_terminal]
        assert live == [self._job], f"other jobs run: {live}"
        self._log_step(f"{len(self._lines)} lines in {', '.join(self._sequence.queries)}")

    def end(self) -> None:
        """End every job of the scenario, also after a failure."""
        client = self._cluster.client
        self._cluster.restart_dead_processes()
        for job in client.jobs():
            if not job.state.globally_terminal:
                client.cancel(job.jid)
        wait_through_outages(
            lambda: all(job.state.globally_terminal for job in client.jobs()),
            "all jobs have ended",
            TIMEOUT_SECONDS,
        )

    def _log_step(self, text: str) -> None:
        messages, self._killer.messages = self._killer.messages, []
        for each in (*messages, text):
            print(f"{time.monotonic() - self._began:6.1f} s  {each}", flush=True)
