"""Kills the process that holds a job or leads a cluster, at once or during an operation."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.plays import Death, Victim
from chaos.real_cluster import RealCluster
from stoker.core.errors import StokerError
from stoker.core.results import AttemptDetails
from stoker.processes.local.cluster_state import ProcessRecord, send, wait_until_gone

GONE_SECONDS = 10.0


class Reaper:
    """Restarts a dead process at once, as a service manager does; runners are not restarted."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self.told: list[str] = []

    @contextmanager
    def at_work(self, death: Death | None) -> Iterator[None]:
        """Kills during the block, or right after it."""
        if death is None:
            yield
            return
        over = threading.Event()
        faults: list[BaseException] = []

        def reap() -> None:
            try:
                over.wait(death.after)
                self.kill(death.victim)
            except BaseException as fault:
                faults.append(fault)

        reaper = threading.Thread(target=reap, name="reaper")
        reaper.start()
        try:
            yield
        finally:
            over.set()
            reaper.join()
        if faults:
            raise faults[0]

    def kill(self, victim: Victim) -> None:
        """Do nothing when the process does not exist at the moment."""
        match victim:
            case Victim.LEADER:
                record = self._living(self._cluster.leader)
            case Victim.TASK_EXECUTOR:
                record = self._holder()
            case Victim.RUNNER:
                record = self._runner()
        if record is None:
            self.told.append(f"there is no {victim} to kill")
            return
        send(record, signal.SIGKILL)
        wait_until_gone([record], GONE_SECONDS)
        self.told.append(f"{victim} killed: {record.name[:30]}, pid {record.pid}")
        self._cluster.restart_the_dead()

    def _living(self, name: str) -> ProcessRecord | None:
        record = self._cluster.process(name)
        return record if record.alive else None

    def _holder(self) -> ProcessRecord | None:
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
