"""The REST API as an ASGI app: all handlers, one router, and the middleware around it."""

import asyncio
from functools import cache

from stoker.rest.control.audit_handlers import AUDIT_HANDLERS
from stoker.rest.control.cluster import CLUSTER_HANDLERS
from stoker.rest.control.processes import PROCESS_HANDLERS
from stoker.rest.control.prometheus import PROMETHEUS_HANDLERS
from stoker.rest.control.quarantine_handlers import QUARANTINE_HANDLERS
from stoker.rest.control.queue_handlers import QUEUE_HANDLERS
from stoker.rest.control.savepoint_handlers import SAVEPOINT_HANDLERS
from stoker.rest.control.session_handlers import SESSION_HANDLERS
from stoker.rest.control.upgrade_handlers import UPGRADE_HANDLERS
from stoker.rest.events.handlers import EVENT_HANDLERS
from stoker.rest.flink.absent_handlers import ABSENT_HANDLERS
from stoker.rest.flink.accumulators import ACCUMULATOR_HANDLERS
from stoker.rest.flink.applications import APPLICATION_HANDLERS
from stoker.rest.flink.dashboard_handlers import DASHBOARD_HANDLERS
from stoker.rest.flink.resource_requirements import RESOURCE_HANDLERS
from stoker.rest.http.asgi import Request, Response
from stoker.rest.http.middleware import RestMiddleware
from stoker.rest.http.routing import Router, get
from stoker.rest.jobs.checkpoint_handlers import CHECKPOINT_HANDLERS
from stoker.rest.jobs.job_handlers import JOB_HANDLERS
from stoker.rest.jobs.log_handlers import LOG_HANDLERS
from stoker.rest.jobs.metrics import METRIC_HANDLERS
from stoker.rest.jobs.row_handlers import ROW_HANDLERS
from stoker.rest.jobs.vertex_handlers import VERTEX_HANDLERS
from stoker.rest.programs.handlers import PROGRAM_HANDLERS
from stoker.rest.requests.submission import submit
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission
from stoker.web.pages import PAGES, content_of

HANDLERS = (
    submit,
    *JOB_HANDLERS,
    *LOG_HANDLERS,
    *ROW_HANDLERS,
    *METRIC_HANDLERS,
    *CHECKPOINT_HANDLERS,
    *VERTEX_HANDLERS,
    *ACCUMULATOR_HANDLERS,
    *APPLICATION_HANDLERS,
    *PROGRAM_HANDLERS,
    *RESOURCE_HANDLERS,
    *AUDIT_HANDLERS,
    *QUARANTINE_HANDLERS,
    *QUEUE_HANDLERS,
    *SAVEPOINT_HANDLERS,
    *UPGRADE_HANDLERS,
    *SESSION_HANDLERS,
    *CLUSTER_HANDLERS,
    *PROCESS_HANDLERS,
    *PROMETHEUS_HANDLERS,
    *EVENT_HANDLERS,
    *DASHBOARD_HANDLERS,
    *ABSENT_HANDLERS,
)


def build_app(services: RestServices) -> RestMiddleware:
    return RestMiddleware(router(), services)


@cache
def router() -> Router:
    """One router for all servers of a process."""
    return Router(ROUTES)


@get(*PAGES, needs=Permission.OPEN)
async def _page(request: Request) -> Response:
    """The page for people, the one on which they read and try the API, and what both load."""
    found = PAGES[request.path]
    return Response(content_of(found.file), media_type=found.media_type, headers=found.headers)


@get("/openapi.json", needs=Permission.OPEN)
async def _openapi(services: RestServices) -> Response:
    # Generated once, in a thread, since it takes long and this loop also renews leases.
    document = await asyncio.to_thread(_document, services.version)
    return Response(document)


@cache
def _document(version: str) -> bytes:
    # The generator is large, and few processes ever need it.
    from stoker.rest.openapi.document import openapi_document  # noqa: PLC0415

    return openapi_document(HANDLERS, version)


ROUTES = (*HANDLERS, _page, _openapi)
