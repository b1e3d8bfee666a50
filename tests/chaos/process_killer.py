"""Kills the leader, or the task executor or runner of a job, at once or during an operation."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.real_cluster import RealCluster
from chaos.step_sequences import Death, Victim
from stoker.core.errors import StokerError
from stoker.core.results import AttemptDetails
from stoker.processes.local.cluster_state import ProcessRecord, send, wait_until_gone

GONE_SECONDS = 10.0


class ProcessKiller:
    """Kills processes, and restarts masters and task executors at once, like a service manager."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self.messages: list[str] = []
        """What was killed, for the log of the scenario."""

    @contextmanager
    def killing(self, death: Death | None) -> Iterator[None]:
        """Cause this death during the block; at the end of the block if it takes less time."""
        if death is None:
            yield
            return
        block_ended = threading.Event()
        errors: list[BaseException] = []

        def kill_when_due() -> None:
            try:
                block_ended.wait(death.after)
                self.kill(death.victim)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=kill_when_due, name="process-killer")
        thread.start()
        try:
            yield
        finally:
            block_ended.set()
            thread.join()
        if errors:
            raise errors[0]

    def kill(self, victim: Victim) -> None:
        """Kill a process, or do nothing when no such process exists at the moment."""
        match victim:
            case Victim.LEADER:
                record = self._living(self._cluster.leader)
            case Victim.TASK_EXECUTOR:
                record = self._task_executor()
            case Victim.RUNNER:
                record = self._runner()
        if record is None:
            self.messages.append(f"there is no {victim} to kill")
            return
        send(record, signal.SIGKILL)
        wait_until_gone([record], GONE_SECONDS)
        self.messages.append(f"{victim} killed: {record.name[:30]}, pid {record.pid}")
        self._cluster.restart_dead_processes()

    def _living(self, name: str) -> ProcessRecord | None:
        record = self._cluster.process(name)
        return record if record.alive else None

    def _task_executor(self) -> ProcessRecord | None:
        names = [str(each.task_executor) for each in self._attempts() if each.task_executor]
        return self._living(names[0]) if names else None

    def _runner(self) -> ProcessRecord | None:
        for attempt in self._attempts():
            if attempt.task_executor is None:
                continue
            for runner in self._cluster.runners_of(str(attempt.task_executor)):
                if _works_for(runner, attempt):
                    return runner
        return None

    def _attempts(self) -> list[AttemptDetails]:
        """Attempts of all live jobs, because an operation may start another job."""
        try:
            client = self._cluster.client
            live = [job.jid for job in client.jobs() if not job.state.globally_terminal]
            return [region.current for job in live for region in client.job(job).regions]
        except StokerError:
            return []


def _works_for(runner: ProcessRecord, attempt: AttemptDetails) -> bool:
    try:
        return Path(os.readlink(f"/proc/{runner.pid}/cwd")).name == attempt.attempt
    except OSError:
        return False
