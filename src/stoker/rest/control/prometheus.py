"""The metrics of this master, as Prometheus reads them."""

import asyncio
from urllib.parse import urlsplit

from stoker.api.metrics import ScrapeTarget
from stoker.gateways.resourcemanager import TaskExecutorDetails
from stoker.metrics.exposition import MEDIA_TYPE, exposition
from stoker.rest.http.asgi import Response
from stoker.rest.http.routing import get
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission


@get(
    "/metrics",
    needs=Permission.READ,
    summary="Metrics of the master that is asked, leader or standby, as Prometheus reads them",
    media_type=MEDIA_TYPE,
    answer=str,
)
async def prometheus_metrics(services: RestServices) -> Response:
    families = services.metrics.collect()
    return Response(await asyncio.to_thread(exposition, families), media_type=MEDIA_TYPE)


@get(
    "/metrics/targets",
    needs=Permission.READ,
    summary="Addresses of the task executors that show metrics, for Prometheus's HTTP discovery",
)
async def scrape_targets(services: RestServices) -> list[ScrapeTarget]:
    dispatcher = await services.dispatcher()
    return [
        scrape_target(executor)
        for executor in await dispatcher.task_executors()
        if executor.metrics_url
    ]


def scrape_target(executor: TaskExecutorDetails) -> ScrapeTarget:
    url = urlsplit(executor.metrics_url)
    return ScrapeTarget(
        targets=[url.netloc],
        labels={"__scheme__": url.scheme, "resource_id": executor.resource_id},
    )


PROMETHEUS_HANDLERS = (prometheus_metrics, scrape_targets)
