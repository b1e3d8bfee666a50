"""Runs a random sequence of steps with one streaming job and the jobs restored from it."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from chaos.numbered_lines import PARTITIONS, NumberedLines, job_over
from chaos.plays import Act, Play, Step
from chaos.real_cluster import RealCluster, eventually
from chaos.reaper import Reaper
from chaos.rolled_output import RolledOutput
from stoker.client.calls import ReplacementSettings
from stoker.core.errors import StokerError
from stoker.core.graph import JobGraph, Restore
from stoker.core.ids import Ids, JobId
from stoker.core.replacements import ReplacementPhase
from stoker.core.states import ExecutionState, JobStatus
from stoker.savepoints.manifest import decode_manifest

T = TypeVar("T")
PATIENCE = 240.0
WINDOW_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """A savepoint, and the content of the sinks at that time."""

    path: str
    batches: Mapping[str, int]
    partitions: int
    output: RolledOutput


class SavepointScenario:
    def __init__(self, cluster: RealCluster, play: Play, root: Path) -> None:
        self._cluster = cluster
        self._play = play
        self._root = root
        self._lines = NumberedLines(root / "in")
        self._ids = Ids()
        self._reaper = Reaper(cluster)
        self._partitions = play.partitions
        self._output = RolledOutput.beginning(root / "out-0")
        self._saved: list[SavedState] = []
        self._job = JobId("")
        self._hurt = False
        """Somebody was killed since the job was last seen to go on."""
        self._began = time.monotonic()

    def play(self) -> None:
        self._begin(None)
        acts = {
            Act.FEED: lambda _step: None,
            Act.KILL: self._kill,
            Act.SAVEPOINT: self._take,
            Act.STOP: self._stop,
            Act.GO_BACK: self._go_back,
            Act.RESTART: self._restart,
            Act.UPGRADE: self._replace,
            Act.RESCALE: self._replace,
        }
        for step in self._play.steps:
            if step.settled:
                self._settle()
            if step.files:
                self._lines.feed(step.files)
            acts[step.act](step)
            self._log_step(f"{step.act} is over")
            self._nothing_is_repeated()
        self._settle()
        self._drain()

    # What may happen.

    def _kill(self, step: Step) -> None:
        assert step.death is not None
        self._running_job()
        self._hurt = True
        self._reaper.kill(step.death.victim)

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
        if path is None and not self._ended_after_all():
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
        # Those that were taken after it belong to what is undone.
        self._saved = self._saved[: index + 1]
        directory = self._root / f"out-{time.monotonic_ns()}"
        self._output = saved.output.back_at(saved.batches, directory)
        self._partitions = saved.partitions
        self._log_step(f"back at {saved.path}")
        self._begin(saved.path)

    def _restart(self, step: Step) -> None:
        job = self._running_job()
        self._cancel(step)
        retained = self._cluster.client.job(job).checkpoints.retained
        assert retained is not None, f"nothing was kept of cancelled job {job}"
        assert retained.path is not None
        self._begin(retained.path)

    def _cancel(self, step: Step) -> None:
        job, client = self._running_job(), self._cluster.client
        self._operate(step, lambda: client.cancel(job))
        eventually(lambda: client.status(job).globally_terminal, f"{job} has ended", PATIENCE)
        assert client.status(job) is JobStatus.CANCELED

    def _replace(self, step: Step) -> None:
        job, client = self._running_job(), self._cluster.client
        how = ReplacementSettings(
            directory=str(self._root / "saved"), window_seconds=WINDOW_SECONDS
        )

        def begin() -> str:
            if step.act is Act.RESCALE:
                return client.begin_rescale(job, step.number + 1, settings=how)
            return client.begin_upgrade(job, self._graph(), settings=how)

        def replace() -> JobId:
            state = client.replacement(job, begin())
            self._log_step(f"{state.phase} {state.reason}")
            calm = step.death is None and not self._hurt
            # A batch that the sink has and the checkpoint has not keeps state from being divided.
            excused = "may be written already" in state.reason
            assert not calm or excused or state.phase is ReplacementPhase.DONE, state
            return state.job_id

        following = self._operate(step, replace)
        if following is None:
            return
        self._job = following
        self._partitions = int(client.job(following).configuration[PARTITIONS])

    # How it is done.

    def _operate(self, step: Step, operation: Callable[[], T]) -> T | None:
        """The result; None when the operation failed, which only a killed process may cause."""
        calm = step.death is None and not self._hurt
        self._hurt = self._hurt or step.death is not None
        try:
            with self._reaper.at_work(step.death):
                return operation()
        except StokerError as error:
            self._log_step(f"{step.act} failed: {error}")
            if calm:
                raise AssertionError(f"{step.act} failed though nobody died") from error
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
            self._play.queries,
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
        """The job runs as far as its master knows, which may not have noticed a death yet."""
        client = self._cluster.client

        def runs() -> bool:
            job = client.job(self._job)
            assert not job.status.globally_terminal, f"the job ended: {job}"
            states = [region.current.state for region in job.regions]
            return bool(states) and all(state is ExecutionState.RUNNING for state in states)

        eventually(runs, f"job {self._job} runs", PATIENCE)
        return self._job

    def _ended_after_all(self) -> bool:
        """Whether a stop without an answer was completed; otherwise the job must keep running."""
        self._lines.feed(1)
        before, client = self._committed(), self._cluster.client
        eventually(
            lambda: client.status(self._job).globally_terminal or self._is_after(before),
            "the job goes on or has ended",
            PATIENCE,
        )
        return client.status(self._job).globally_terminal

    def _settle(self) -> None:
        """Restarted processes may still be starting, so others stand in for them."""
        self._cluster.restart_the_dead()
        self._running_job()
        self._lines.feed(1)
        before = self._committed()
        eventually(lambda: self._is_after(before), "every query commits a batch", PATIENCE)
        self._running_job()
        self._hurt = False

    def _is_after(self, before: Mapping[str, int]) -> bool:
        now = self._committed()
        return all(now[query] > before[query] for query in self._play.queries)

    def _committed(self) -> dict[str, int]:
        checkpoints = self._cluster.directory / "storage" / "jobs" / self._job / "checkpoints"
        return {
            query: max(
                (int(path.name) for path in (checkpoints / query / "commits").glob("[0-9]*")),
                default=-1,
            )
            for query in self._play.queries
        }

    # What must be true.

    def _nothing_is_repeated(self) -> None:
        for query in self._play.queries:
            surplus = self._output.rows(query) - self._lines.expected(query)
            if query == "windows":
                # Its numbers are whole only when the input is; a window comes once all the same.
                keys = Counter(key for key, _rows in self._output.rows(query).elements())
                assert max(keys.values(), default=1) == 1, f"repeated in {query}: {keys}"
            else:
                assert not surplus, f"repeated in {query}: {surplus}"

    def _drain(self) -> None:
        self._lines.close_windows()

        def missing() -> dict[str, Counter[tuple[int, int]]]:
            lacks = {
                query: self._lines.expected(query) - self._output.rows(query)
                for query in self._play.queries
            }
            return {query: lack for query, lack in lacks.items() if lack}

        try:
            eventually(lambda: not missing(), "all input is in the sinks", PATIENCE)
        except AssertionError:
            raise AssertionError(f"lost: {missing()}") from None
        for query in self._play.queries:
            surplus = self._output.rows(query) - self._lines.expected(query)
            assert not surplus, f"repeated in {query}: {surplus}"
        live = [j.jid for j in self._cluster.client.jobs() if not j.state.globally_terminal]
        assert live == [self._job], f"other jobs run: {live}"
        self._log_step(f"{len(self._lines)} lines in {', '.join(self._play.queries)}")

    def end(self) -> None:
        """End every job of the scenario, also after a failure."""
        client = self._cluster.client
        self._cluster.restart_the_dead()
        for job in client.jobs():
            if not job.state.globally_terminal:
                client.cancel(job.jid)
        eventually(
            lambda: all(job.state.globally_terminal for job in client.jobs()),
            "all jobs have ended",
            PATIENCE,
        )

    def _log_step(self, text: str) -> None:
        heard, self._reaper.told = self._reaper.told, []
        for each in (*heard, text):
            print(f"{time.monotonic() - self._began:6.1f} s  {each}", flush=True)
