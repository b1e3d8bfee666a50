"""The metrics of this master, as Prometheus reads them."""

import asyncio

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


PROMETHEUS_HANDLERS = (prometheus_metrics,)
