"""An upgrade of a running job: stop with savepoint, start the new version, watch, or go back."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from stoker.cli.restoring import from_savepoint, start_saved
from stoker.cli.submitting import submit
from stoker.client.blocking import BlockingClient
from stoker.core.errors import InvalidInput, StokerError
from stoker.core.graph import Restore
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.core.states import JobStatus
from stoker.pipeline.building import LoadedJob

RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
START_SECONDS = 300.0
"""For slots and Spark; one that does not run by then is not waited for any longer."""
LOOK_SECONDS = 0.5

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Upgraded:
    job_id: JobId
    savepoint: str
    rolled_back: bool = False
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    client: BlockingClient
    say: Say
    window_seconds: float
    directory: str | None = None
    allow_non_restored_state: bool = False

    def run(self, old: JobId, new: LoadedJob) -> Upgraded:
        savepoint = self.client.stop(old, self.directory)
        self.client.wait(old)
        self.say(f"Job {old} is stopped; its savepoint is {savepoint}.")
        restore = Restore(path=savepoint, allow_non_restored_state=self.allow_non_restored_state)
        try:
            job_id = submit(self.client, from_savepoint(_retaining(new), restore))
        except InvalidInput as refusal:
            return self._back(savepoint, None, refusal.message)
        self.say(f"Job {job_id} is the new version; watching it for {self.window_seconds:g} s.")
        reason = self._watch(job_id)
        if reason is None:
            return Upgraded(job_id=job_id, savepoint=savepoint)
        return self._back(savepoint, job_id, reason)

    def _watch(self, job_id: JobId) -> str | None:
        """Why the new version is not good; None when it ran through the window."""
        start_by = time.monotonic() + START_SECONDS
        deadline: float | None = None
        while deadline is None or time.monotonic() < deadline:
            details = self.client.job(job_id)
            if details.status is JobStatus.FINISHED:
                return None
            if details.status.globally_terminal or details.failures:
                return _reason(details)
            if deadline is None and details.status is JobStatus.RUNNING and _all_run(details):
                deadline = time.monotonic() + self.window_seconds
            if deadline is None and time.monotonic() >= start_by:
                waits = f": {details.waiting}" if details.waiting else ""
                return f"it does not run after {START_SECONDS:g} s{waits}"
            time.sleep(LOOK_SECONDS)
        return None

    def _back(self, savepoint: str, failed: JobId | None, reason: str) -> Upgraded:
        """The old version goes on from where the new one was, if that has committed anything."""
        self.say(f"The new version does not do: {reason}")
        origin = self._end(failed) if failed is not None else None
        old = start_saved(self.client, savepoint, origin=origin)
        self.say(f"The old version goes on as job {old}, from {origin or savepoint}.")
        return Upgraded(job_id=old, savepoint=savepoint, rolled_back=True, reason=reason)

    def _end(self, failed: JobId) -> str | None:
        status = self.client.status(failed)
        if not status.globally_terminal:
            try:
                self.client.cancel(failed)
            except StokerError as error:
                self.say(error.message)
            self.client.wait(failed)
        details = self.client.job(failed)
        committed = details.checkpoints.latest_completed is not None
        retained = details.checkpoints.retained
        return retained.path if committed and retained is not None else None


def _retaining(new: LoadedJob) -> LoadedJob:
    """What the new version commits must not be lost or written twice if it has to go."""
    configuration = {**new.graph.configuration, RETENTION: "RETAIN_ON_CANCELLATION"}
    graph = msgspec.structs.replace(new.graph, configuration=configuration)
    return replace(new, graph=graph)


def _all_run(details: JobDetails) -> bool:
    return all(region.current.state.value in ("RUNNING", "FINISHED") for region in details.regions)


def _reason(details: JobDetails) -> str:
    if details.failures:
        # The oldest: what comes after it may be its consequence. The rest of a long message is in
        # the job's exceptions.
        failure = details.failures[-1].failure
        first = failure.message.strip().splitlines() or [""]
        return f"{failure.error}: {first[0]}"
    return f"it ended as {details.status.value}"
