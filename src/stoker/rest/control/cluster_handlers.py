"""Requests about the cluster and its task executors."""

from datetime import UTC, datetime

from stoker.api.cluster import (
    ClusterOverviewAnswer,
    DashboardConfig,
    TaskManagerAnswer,
    TaskManagers,
)
from stoker.core.errors import StokerError
from stoker.rest.control import cluster_views
from stoker.rest.control.process_handlers import inspection_of
from stoker.rest.http.routing import get
from stoker.rest.services import RestServices


@get("/overview", summary="Number of task executors, slots and jobs")
async def overview(services: RestServices) -> ClusterOverviewAnswer:
    dispatcher = await services.dispatcher()
    return cluster_views.overview(await dispatcher.cluster_overview(), services.version)


@get("/config", summary="Settings of the cluster for a web page")
async def config(services: RestServices) -> DashboardConfig:
    now = datetime.fromtimestamp(services.clock() / 1000, UTC).astimezone()
    return cluster_views.dashboard_config(services.options, now, services.version)


@get("/taskmanagers", summary="All task executors")
async def task_managers(services: RestServices) -> TaskManagers:
    dispatcher = await services.dispatcher()
    return cluster_views.task_managers(await dispatcher.task_executors())


@get("/taskmanagers/{taskmanagerid}", summary="One task executor")
async def task_manager(taskmanagerid: str, services: RestServices) -> TaskManagerAnswer:
    dispatcher = await services.dispatcher()
    answer = cluster_views.task_manager(await dispatcher.task_executors(), taskmanagerid)
    try:
        figures = await (await inspection_of(services, taskmanagerid)).figures()
    except StokerError:
        # The process may just have ended; what the master knows about it still holds.
        return answer
    return cluster_views.with_measurements(answer, figures)


CLUSTER_HANDLERS = (overview, config, task_managers, task_manager)
