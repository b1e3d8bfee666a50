"""Requests to show the queues and to drain a task executor."""

from typing import Annotated

from stoker.api.control import QueueAnswer, QueuesAnswer
from stoker.api.shape import Nothing
from stoker.core.ids import ResourceId
from stoker.gateways.dispatcher import QueueOverview
from stoker.rest.http.routing import QueryParameter, get, post
from stoker.rest.requests.parameters import TaskManagerIdText
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

Limit = Annotated[
    float | None,
    QueryParameter(
        name="timeout",
        ge=0,
        description="seconds that batch tasks have to finish; without it, there is no limit",
    ),
]


@get(
    "/queues",
    needs=Permission.READ,
    summary="The queues with their limits and the jobs that wait in them",
)
async def queues(services: RestServices) -> QueuesAnswer:
    dispatcher = await services.dispatcher()
    return QueuesAnswer(queues=[_view(queue) for queue in await dispatcher.queues()])


@post(
    "/taskmanagers/{taskmanagerid}/drain",
    needs=Permission.OPERATE,
    status=202,
    summary="Give a task executor no new tasks, and end it when its tasks have finished or moved",
)
async def drain(
    taskmanagerid: TaskManagerIdText, services: RestServices, limit: Limit = None
) -> Nothing:
    dispatcher = await services.dispatcher()
    await dispatcher.drain_task_executor(ResourceId(taskmanagerid), limit)
    return Nothing()


def _view(queue: QueueOverview) -> QueueAnswer:
    return QueueAnswer(
        name=queue.name,
        running=queue.running,
        max_running=queue.max_running,
        slots=queue.slots,
        max_slots=queue.max_slots,
        waiting=list(queue.waiting),
        slots_in_use=queue.slots_in_use,
        waiting_for_slots=queue.waiting_for_slots,
    )


QUEUE_HANDLERS = (queues, drain)
