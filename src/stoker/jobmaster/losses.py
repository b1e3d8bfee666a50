"""Lost attempts: those whose task executor is silent, gone, or does not know them.

A silent task executor may be dead, frozen or cut off, and the last two still run their attempts.
Two attempts of one region must never run at the same time, or a sink could receive rows twice.

Invariant: an attempt is replaced only when it is proven gone, or when its lease has certainly run
out at its task executor. Each function here waits for one of the two first, then looks for the
outcome record (`JobDriver.resolve`), and only then fails the attempt. A task executor that returns
in time keeps its attempts.
"""

import asyncio
import logging
from datetime import timedelta
from functools import partial

from stoker.core.errors import NotFound, RecipientUnreachable, StokerError
from stoker.core.ids import AttemptId, InstanceId
from stoker.core.results import Failure
from stoker.core.states import ExecutionState
from stoker.gateways.taskexecutor import TaskExecutorGateway
from stoker.ha.stores.attempts import AttemptRecord
from stoker.heartbeat.monitor import Liveness
from stoker.jobmaster.executors import ConnectedExecutor, is_proof_of_death, wait_before_replacing
from stoker.jobmaster.job import JobDriver, lost

log = logging.getLogger(__name__)

PROBES = 2
PROBE_PAUSE_SECONDS = 0.5


async def fail_lost_attempts(
    job: JobDriver, executor: ConnectedExecutor, reason: str, *, proven_dead: bool
) -> None:
    """Wait until no attempt at this task executor can run any more, then fail those attempts."""
    wait = _wait_for(job, executor.instance, proven_dead=proven_dead)
    log.warning(
        "lost task executor %s: %s; its attempts are replaced in %.1f s at the earliest",
        executor.resource_id,
        reason,
        wait.total_seconds(),
    )
    await asyncio.sleep(wait.total_seconds())
    if not proven_dead and _wait_for(job, executor.instance, proven_dead=False):
        return  # It returned and renewed its leases; a later loss is handled by a later call.
    failure = lost(executor.resource_id, reason)
    for attempt in job.graph.attempts_on(executor.instance):
        is_gone = partial(_is_disconnected, job, executor.instance)
        if is_gone():
            await job.resolve(attempt.id, failure, is_gone=is_gone)


async def fail_attempts_of_previous_instance(job: JobDriver, executor: ConnectedExecutor) -> None:
    """Fail the attempts of an instance that another one has replaced.

    The replaced process may be gone, or only frozen or cut off.
    """
    proven = await _process_is_gone(job, executor.address)
    await fail_lost_attempts(
        job, executor, "another process has its resource id now", proven_dead=proven
    )


def _wait_for(job: JobDriver, instance: InstanceId, *, proven_dead: bool) -> timedelta:
    now = asyncio.get_running_loop().time()
    return wait_before_replacing(
        proven_dead=proven_dead,
        acknowledged_at=job.lease_acknowledged.get(instance, now),
        now=now,
        options=job.services.options,
        lease=job.services.lease,
    )


def _is_disconnected(job: JobDriver, instance: InstanceId) -> bool:
    return instance not in job.executors


def on_executor_silent(job: JobDriver, instance: InstanceId, liveness: Liveness) -> None:
    executor = job.executors.pop(instance, None)
    if executor is None:
        return
    job.graph.slots_gone(instance)
    job.act([])
    proven = is_proof_of_death(executor.address, liveness)
    reason = "its process is gone" if proven else f"no heartbeat ({liveness.value.lower()})"
    job.scope.spawn(
        f"fail attempts of {instance}",
        fail_lost_attempts(job, executor, reason, proven_dead=proven),
    )


async def resolve_missing(job: JobDriver, instance: InstanceId, missing: set[AttemptId]) -> None:
    """Resolve attempts that their task executor, which is alive, does not have."""
    unresolved = missing - job.resolving
    job.resolving |= unresolved
    try:
        for attempt in sorted(unresolved):
            await _resolve_missing_attempt(job, instance, attempt)
    finally:
        job.resolving -= unresolved


async def _resolve_missing_attempt(
    job: JobDriver, instance: InstanceId, attempt: AttemptId
) -> None:
    executor = job.executors.get(instance)
    if executor is None:
        return
    try:
        # An unanswered deployment may still arrive: the cancellation forbids it beforehand.
        await executor.gateway.cancel_task(job.token, job.job_id, attempt)
    except NotFound:
        log.debug("%s holds nothing of this job", instance)
    except StokerError as error:
        log.info("attempt %s is resolved with the next heartbeat: %s", attempt, error)
        return
    failure = Failure(
        error="AttemptLost",
        message=f"task executor instance {instance} does not know the attempt any more",
    )
    await job.resolve(attempt, failure, is_gone=lambda: True)


async def await_previous_attempt(job: JobDriver, record: AttemptRecord) -> None:
    """Wait for the task executor of an attempt that a previous leader deployed, or resolve it.

    A new leader cannot know when the lease was last renewed, so it counts from its own start.
    """
    loop = asyncio.get_running_loop()
    options = job.services.options
    lease = job.services.lease
    deadline = loop.time() + (lease.duration + lease.margin).total_seconds()
    while _awaits_executor(job, record.attempt) and loop.time() < deadline:
        if await _process_is_gone(job, record.address):
            await asyncio.sleep(options.death_grace.total_seconds())
            break
        await asyncio.sleep(job.services.heartbeat.interval.total_seconds())
    if _awaits_executor(job, record.attempt):
        failure = lost(record.task_executor, "it did not register with the new leader")
        is_gone = partial(_awaits_executor, job, record.attempt)
        await job.resolve(record.attempt, failure, is_gone=is_gone)


def _awaits_executor(job: JobDriver, attempt_id: AttemptId) -> bool:
    attempt = job.graph.attempt(attempt_id)
    if attempt is None:
        return False
    waiting = attempt.slot is not None and attempt.slot.instance not in job.executors
    return attempt.state in (ExecutionState.RECONCILING, ExecutionState.CANCELING) and waiting


async def _process_is_gone(job: JobDriver, address: str) -> bool:
    """Probe whether the process is gone; an address names one instance, even after it ended."""
    if not is_proof_of_death(address, Liveness.UNREACHABLE):
        return False
    for _ in range(PROBES):
        try:
            await job.services.rpc.connect(address, TaskExecutorGateway)
        except RecipientUnreachable as error:
            if error.facts.get("timed_out"):
                return False  # No answer proves nothing: the process may be frozen or cut off.
            await asyncio.sleep(PROBE_PAUSE_SECONDS)
        except StokerError:
            return False
        else:
            return False
    return True
