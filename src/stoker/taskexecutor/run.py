"""The lifetime of a task executor.

The order of the shutdown matters. Tasks end first, while the endpoint still answers, so that
their attempts do not count as lost. Their outcomes go on record next, and only then does the task
executor deregister. A task that exceeds the time limit ends with the process.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stoker.aio.scope import TaskScope
from stoker.core.errors import StartupFailed
from stoker.taskexecutor.attempt_files import AttemptFiles
from stoker.taskexecutor.endpoint import TaskExecutor
from stoker.taskexecutor.services import TaskExecutorServices

log = logging.getLogger(__name__)

END_SECONDS = 30.0
RECORD_SECONDS = 10.0
"""Enough for a storage that is slow or briefly unavailable."""
DEREGISTER_SECONDS = 2.0
LOG_CLEANUP_SECONDS = 600.0


@asynccontextmanager
async def running_task_executor(services: TaskExecutorServices) -> AsyncIterator[TaskExecutor]:
    executor = TaskExecutor(services)
    await executor.prepare()
    async with (
        executor.task_scope,
        TaskScope("task-executor-connections") as connections,
        executor.scope,
        executor.manager.beats,
        services.rpc.running(executor),
    ):
        connections.spawn("retrieval", executor.manager_leader.run())
        connections.spawn("registration", _register_when_ready(executor, services))
        connections.spawn("masters", executor.masters.run())
        connections.spawn("leases", executor.leases.run())
        connections.spawn("checks", executor.run_checks())
        connections.spawn("old logs", _remove_old_logs(services))
        connections.spawn("registration timeout", _end_when_unregistered(executor, services))
        try:
            yield executor
        finally:
            await _finish_despite_cancellation(
                asyncio.create_task(_shut_down(executor), name="leave")
            )


async def _register_when_ready(executor: TaskExecutor, services: TaskExecutorServices) -> None:
    """Register when the engine is ready, so that a task starts at once in a reserved slot."""
    await services.tasks.engine.wait_until_ready()
    executor.restore_slots()
    await executor.manager.run()


async def _finish_despite_cancellation(leaving: "asyncio.Task[None]") -> None:
    """Wait for the shutdown even when it is cancelled, then raise the cancellation.

    Several tasks end at once when a session is lost, and each of them cancels the owner of all.
    """
    cancelled: asyncio.CancelledError | None = None
    while not leaving.done():
        try:
            await asyncio.wait({leaving})
        except asyncio.CancelledError as error:
            cancelled = error
    leaving.result()
    if cancelled is not None:
        raise cancelled


async def _shut_down(executor: TaskExecutor) -> None:
    try:
        async with asyncio.timeout(END_SECONDS):
            await executor.end_tasks("the task executor is stopped")
    except TimeoutError:
        log.error("tasks did not end within %.0f s; they end with the process", END_SECONDS)
    try:
        async with asyncio.timeout(RECORD_SECONDS):
            await executor.wait_until_recorded()
    except TimeoutError:
        log.error(
            "outcomes are not on record after %.0f s; their jobs wait until the leases are over",
            RECORD_SECONDS,
        )
    executor.forget_slots()
    try:
        async with asyncio.timeout(DEREGISTER_SECONDS):
            await executor.manager.deregister("it was stopped")
    except TimeoutError:
        return


async def _remove_old_logs(services: TaskExecutorServices) -> None:
    tasks = services.tasks
    files = AttemptFiles(tasks.work_dir, tasks.log_dir, tasks.off_loop)
    kept_seconds = services.options.logs_retention.total_seconds()
    limit = int(services.options.logs_size_limit)
    while True:
        since = tasks.wall_clock() / 1000 - kept_seconds
        await files.remove_old_logs(since=since, limit=limit)
        await asyncio.sleep(LOG_CLEANUP_SECONDS)


async def _end_when_unregistered(executor: TaskExecutor, services: TaskExecutorServices) -> None:
    """Fail when an idle task executor could not register for too long although a master leads."""
    patience = services.options.registration_timeout.total_seconds()
    registered = executor.manager.registered
    while True:
        try:
            async with asyncio.timeout(patience):
                await registered.wait_until(lambda token: token is not None)
        except TimeoutError:
            if executor.is_idle and executor.manager_leader.leader is not None:
                raise StartupFailed(
                    f"the resource manager did not accept this task executor within {patience:.0f} "
                    "s (taskmanager.registration.timeout); the logs of both name the reason"
                ) from None
            continue
        await registered.wait_until(lambda token: token is None)
